"""What a node tells of the disk that jobs may have, and what it refuses by itself."""

import argparse
import shutil
from types import SimpleNamespace

import pytest

from agents.admission.local_checks import disk_refusals
from agents.admission.policy import NodePolicy
from agents.contract.codec import decode, encode
from agents.contract.documents import (
    DesiredDocument,
    DesiredReplica,
    DesiredReplicaState,
    Device,
    NodeFacts,
    ReplicaState,
    digest,
)
from agents.contract.replica_limits import MAX_DISK_MIB
from agents.host.disk_space import MIN_FREE_MIB, MIN_FREE_PERCENT
from agents.host.job_disk import DEFAULT_RESERVE, DiskReserve, JobDisk, parse_reserve
from agents.settings import job_disk, parser
from tests.unit.agents.documents import a_replica

GIB = 1 << 10


@pytest.fixture
def size(monkeypatch):
    """Sets the size of every disk, in MiB."""

    def of(mib):
        usage = SimpleNamespace(total=mib << 20, free=0)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)

    return of


@pytest.mark.parametrize(
    ("total", "kept", "left"),
    [
        (1_000 * GIB, DEFAULT_RESERVE, 800 * GIB),
        (40 * GIB, DEFAULT_RESERVE, 30 * GIB),
        (8 * GIB, DEFAULT_RESERVE, 0),
        (1_000 * GIB, DiskReserve(), 1_000 * GIB),
        (1_000 * GIB, DiskReserve(mib=300 * GIB), 700 * GIB),
        (1_000 * GIB, DiskReserve(mib=2_000 * GIB), 0),
        (100 * GIB + 1_023, DiskReserve(), 100 * GIB),
        (4 * MAX_DISK_MIB, DiskReserve(), MAX_DISK_MIB // GIB * GIB),
    ],
)
def test_jobs_may_have_what_the_reserve_leaves_in_whole_gib(tmp_path, size, total, kept, left):
    size(total)
    assert JobDisk(tmp_path, kept).capacity_mib() == left


def test_a_real_disk_is_measured(tmp_path):
    total = shutil.disk_usage(tmp_path).total >> 20
    told = JobDisk(tmp_path, DiskReserve()).capacity_mib()
    assert total - GIB < told <= total


def test_a_folder_that_is_not_there_is_not_told_as_nothing(tmp_path):
    assert JobDisk(tmp_path / "gone").capacity_mib() is None
    assert JobDisk(None).capacity_mib() is None


def test_the_reserve_is_twice_what_the_preflight_wants_free():
    assert DiskReserve(2 * MIN_FREE_PERCENT, 2 * MIN_FREE_MIB) == DEFAULT_RESERVE


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("0%", DiskReserve()),
        ("25%", DiskReserve(percent=25)),
        ("200GiB", DiskReserve(mib=200 * GIB)),
        ("512MiB", DiskReserve(mib=512)),
        ("2TiB", DiskReserve(mib=2 << 20)),
    ],
)
def test_a_reserve_is_a_part_or_an_amount(text, kept):
    assert parse_reserve(text) == kept


@pytest.mark.parametrize("text", ["", "20", "100%", "-1%", "20 %", "1.5%", "200GB", "GiB", "all"])
def test_another_reserve_is_refused_with_an_example(text):
    with pytest.raises(argparse.ArgumentTypeError, match='"20%" or "200GiB"'):
        parse_reserve(text)


def test_arguments_and_environment_choose_folder_and_reserve(monkeypatch, tmp_path):
    run = ["run", "--var", str(tmp_path), "--runtime", "process"]
    assert job_disk(parser().parse_args(run)) == JobDisk(tmp_path)
    chosen = job_disk(parser().parse_args([*run, "--disk-folder", "/data", "--disk-reserve=0%"]))
    assert (str(chosen.folder), chosen.reserve) == ("/data", DiskReserve())
    monkeypatch.setenv("TESSERA_AGENT_DISK_FOLDER", "/scratch")
    monkeypatch.setenv("TESSERA_AGENT_DISK_RESERVE", "1TiB")
    chosen = job_disk(parser().parse_args(run))
    assert (str(chosen.folder), chosen.reserve) == ("/scratch", DiskReserve(mib=1 << 20))
    with pytest.raises(SystemExit):
        parser().parse_args([*run, "--disk-reserve", "some"])


def test_what_an_older_side_does_not_know_goes_unsaid_until_it_is_needed():
    """Both sides refuse unknown fields: a document without disk is the one of before."""
    assert "disk_mib" not in encode(a_replica())
    assert "disk_mib" not in encode(NodeFacts())
    assert decode(DesiredReplica, encode(a_replica())).disk_mib == 0
    assert decode(NodeFacts, encode(NodeFacts())).disk_mib is None
    for told in (a_replica(disk_mib=5), NodeFacts(disk_mib=5), NodeFacts(disk_mib=0)):
        assert decode(type(told), encode(told)) == told
    assert digest(a_replica()) != digest(a_replica(disk_mib=5))


def short(disk_mib, *replicas, here=()):
    asking = [a_replica(id=key, disk_mib=mib) for key, mib in replicas]
    found = disk_refusals(asking, here, disk_mib)
    return {key: (failure.code, failure.sentence) for key, failure in found.items()}


def test_replicas_have_at_most_the_disk_of_the_node_together():
    assert short(100, ("a", 60), ("b", 40)) == {}
    said = "50 MiB of disk requested beside 60 MiB in use; this node has 100 MiB"
    assert short(100, ("a", 60), ("b", 50), ("c", 40)) == {"b": ("disk", said)}


def test_what_is_here_keeps_its_disk_also_where_the_node_has_less_by_now():
    assert short(10, ("a", 60), ("b", 0), here={"a"}) == {}
    assert short(None, ("a", 60), here={"a"}) == {}
    assert list(short(100, ("new", 60), ("old", 60), here={"old"})) == ["new"]


def test_a_node_that_does_not_know_its_disk_takes_nobody_who_asks_for_it():
    said = "1 MiB of disk requested beside 0 MiB in use; how much this node has is unknown"
    assert short(None, ("a", 1), ("b", 0)) == {"a": ("disk", said)}


def test_the_policy_bounds_the_disk_of_a_replica():
    policy = NodePolicy(max_disk_mib=512)
    for disk_mib, word in ((512, ""), (513, "disk is above this node's policy")):
        assert policy.refusal(a_replica(disk_mib=disk_mib), "docker") == word


def test_an_agent_tells_its_disk_and_fails_what_does_not_fit(machine, size):
    size(1_000 * GIB)
    node = machine.agent()
    node.hardware.job_disk = JobDisk(machine.folder)
    device = Device("a-1", "s-1", gpu_uuid=machine.gpus[0], size=8)
    asked = {"devices": (device,), "processes": 1, "world": 1, "rank": 0}
    asked |= {"wish": DesiredReplicaState.PREPARE, "rendezvous": None, "disk_mib": 801 * GIB}
    node.hardware.refresh()
    assert node.accept(DesiredDocument("n-1", 1, replicas=(a_replica(**asked),)))
    node.renew_lease(float("inf"))
    for _ in range(4):
        node.round()
    assert machine.reported[-1].facts.disk_mib == 800 * GIB
    (told,) = machine.reported[-1].replicas
    assert (told.state, told.code) == (ReplicaState.FAILED, "disk")
    assert machine.runtime.story == []
