"""Each replica has its limit on disk, whatever becomes of the others."""

import pytest

from agents.loop.disk_limits import DiskLimits
from agents.runtime.base import ContainerPhase, ContainerStatus, EngineUnreachable
from tests.unit.agents.documents import a_replica

MIB = 1 << 20


class Disks:
    """A runtime of which only the disk is asked: bytes, or an error, by replica."""

    def __init__(self, **used):
        self.used = used

    def used_disk_bytes(self, replica_id, limit):
        found = self.used[replica_id]
        if isinstance(found, Exception):
            raise found
        return found


def watched(disks, default_mib=10):
    """The limits of its replicas, and a function that measures and returns those beyond."""
    replicas = [a_replica(id=name) for name in disks.used]
    running = {
        name: ContainerStatus(name, "j", 1, 0, 1, ContainerPhase.RUNNING, name, "", 0)
        for name in disks.used
    }
    calls = []
    limits = DiskLimits(disks, default_mib, lambda: calls.append("wake"))
    limits.beyond(replicas, running)

    def measured():
        limits.measure()
        return limits.beyond(replicas, running)

    return measured, calls


@pytest.mark.parametrize("error", [EngineUnreachable("away"), OSError("stale"), RecursionError()])
def test_one_that_cannot_be_measured_leaves_the_others_their_limits(error):
    disks = Disks(first=0, broken=error, last=11 * MIB)
    measured, calls = watched(disks)
    assert measured() == {"last"} and calls == ["wake"]


def test_one_that_cannot_be_measured_is_as_it_was():
    disks = Disks(full=11 * MIB, other=0)
    measured, calls = watched(disks)
    assert measured() == {"full"}
    disks.used |= {"full": OSError("stale"), "other": OSError("stale")}
    assert measured() == {"full"} and calls == ["wake"], "it is stopped once"
    disks.used["full"] = 0
    assert measured() == frozenset()


def test_nothing_is_measured_without_a_limit():
    measured, _ = watched(Disks(any=AssertionError("it was measured")), default_mib=0)
    assert measured() == frozenset()
