"""A child whose agent died before it wrote down that it had begun it must never run the command."""

import os
import select
import time

import pytest

from agents.contract.documents import Rendezvous
from agents.runtime.base import ContainerPhase
from agents.runtime.child import unprotect
from agents.runtime.child_server import ChildServer
from agents.runtime.process import ProcessRuntime
from tests.unit.agents.documents import a_replica

MEETING = Rendezvous("127.0.0.1", 29_500)
SECONDS = 300  # a bound for what never comes; nothing waits so long


@pytest.fixture
def runtime(tmp_path):
    runtime = ProcessRuntime(tmp_path / "replicas")
    yield runtime
    for replica in runtime.containers():
        runtime.stop(replica, 0)


def has_ended(pidfd):
    ended = bool(select.select([pidfd], [], [], SECONDS)[0])
    os.close(pidfd)
    return ended


def test_of_two_children_at_one_gate_only_the_known_one_runs_the_command(runtime, tmp_path):
    said = tmp_path / "said"
    replica = a_replica(
        command=("sh", "-c", f"echo started >> {said}; exec sleep 60"),
        launcher="none",
        devices=(),
        processes=1,
    )
    runtime.prepare(replica, ())
    # What the agent before had begun, slow to open the gate: it opens that of the next one.
    orphan = os.pidfd_open(ChildServer(runtime.home).start_parent(runtime.home / replica.id))
    runtime.start(replica, (), MEETING)
    assert has_ended(orphan)
    end = time.monotonic() + SECONDS
    while not said.exists() or not said.read_text():
        assert time.monotonic() < end, "the known child never ran"
        time.sleep(0.005)
    assert said.read_text() == "started\n"
    assert runtime.containers()[replica.id].phase is ContainerPhase.RUNNING


@pytest.mark.parametrize(
    ("inherited", "own"), [("-900\n", "0"), ("0\n", "0\n"), ("300\n", "300\n")]
)
def test_a_job_does_not_inherit_its_agents_protection_from_the_oom_killer(tmp_path, inherited, own):
    score = tmp_path / "oom_score_adj"
    score.write_text(inherited)
    unprotect(score)
    assert score.read_text() == own
