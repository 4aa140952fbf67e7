"""The crash drill: an agent that ends anywhere finds its way back, and the drill would tell."""

import functools
import threading

import pytest

import agents.drill.portal
import agents.loop.end_records
from agents.contract.lease import LeaseEnd
from agents.drill.crash import crash_drill
from agents.drill.engine import MemoryEngine
from agents.drill.kill_points import Killed, KillSwitch
from agents.drill.random_walk import random_walk
from agents.drill.run import run_drill
from agents.loop.lease import Lease
from agents.loop.node import NodeLoop
from agents.loop.pulls import ImagePulls
from agents.loop.reconcile import PrepareReplica
from agents.nvml.known_gpus import KnownGpus
from agents.runtime.process import ProcessRuntime
from agents.simdriver.install import uninstall
from tests.environment.docker_engine import strays
from tests.services.stack import until
from tests.support.examples import first_quick

# Primes: over the runs of one step, every kind of point is met.
EVERY, EVERY_QUICK = 61, 251


@pytest.fixture(autouse=True)
def real_library():
    yield
    uninstall()


@pytest.mark.parametrize(
    ("every", "points"), [(EVERY_QUICK, 3), pytest.param(EVERY, 15, marks=pytest.mark.slow)]
)
def test_an_agent_that_ends_at_any_point_finds_its_way_back(every, points):
    report = crash_drill(every=every, workers=2)
    assert report.points > points
    assert report.is_good, report.worst
    assert report.max_rounds <= 3


@pytest.mark.parametrize("seed", first_quick(1, 2))
def test_a_random_walk_of_wishes_and_faults_breaks_no_promise(seed):
    told = random_walk(operations=250, seed=seed)
    assert told["violations"] == 0, told["first"]
    assert told["done"]["kill"] > 10


@pytest.mark.slow
def test_a_walk_tells_of_a_refresh_that_reads_what_is_being_carved(monkeypatch):
    """Without the lock of each GPU, handles vanish under the reader."""
    monkeypatch.setattr(KnownGpus, "lock", lambda *_: threading.RLock())
    report = random_walk(operations=150, seed=1)
    assert report["by_invariant"].get("I10"), report


@pytest.mark.slow
def test_a_walk_tells_of_an_end_that_is_booked_as_the_programs_own(monkeypatch):
    monkeypatch.setattr(agents.loop.end_records, "end_cause", lambda *_, **__: None)
    report = random_walk(operations=150, seed=1)
    assert report["by_invariant"].get("I11", 0) > 0


@pytest.mark.slow
def test_a_walk_tells_of_a_second_copy_beside_one_that_was_kept(monkeypatch):
    """As a portal does that takes every node for one that stops its work."""
    rule = agents.drill.portal.seconds_until_over
    stops = functools.partial(rule, LeaseEnd.STOP)
    monkeypatch.setattr(
        agents.drill.portal, "seconds_until_over", lambda _, **seconds: stops(**seconds)
    )
    report = random_walk(operations=120, seed=16)
    assert report["on_lease_end"] == "keep"
    assert report["by_invariant"].get("I12", 0) > 0


@pytest.mark.slow
def test_a_walk_tells_of_an_agent_that_forgets_its_lease(monkeypatch):
    """One that is killed and started again out of contact would run on."""
    monkeypatch.setattr(Lease, "_read", lambda _: None)
    monkeypatch.setattr(Lease, "is_valid", lambda *_: True)
    report = random_walk(operations=250, seed=6)
    assert report["on_lease_end"] == "stop"
    assert report["by_invariant"].get("I12", 0) > 0


@pytest.mark.slow
def test_a_walk_tells_of_an_engine_that_loses_its_replicas(monkeypatch):
    monkeypatch.setattr(MemoryEngine, "remove", lambda engine, replica: None)
    told = random_walk(operations=150, seed=1)
    assert told["by_invariant"].get("I4", 0) > 0


def test_a_walk_tells_of_a_second_start(monkeypatch):
    plain = MemoryEngine.start

    def again(engine, replica, devices, meeting):
        plain(engine, replica, devices, meeting)
        engine.starts[replica.id] += 1

    monkeypatch.setattr(MemoryEngine, "start", again)
    told = random_walk(operations=60, seed=3)
    assert told["by_invariant"].get("I8", 0) > 0


def begun_in_the_loop(pulls, image, request):
    """As an agent does that pulls while it prepares a replica."""
    pulls._run(image, request)


def stops_after_pulls(loop, actions, plain=NodeLoop._ready_actions):
    """As an agent does whose pulls and stops share threads."""
    ready = plain(loop, actions)
    if not loop._pulls.progress():
        return ready
    return [action for action in ready if isinstance(action, PrepareReplica)]


def carves_after_pulls(loop, desired, containers, plain=NodeLoop._partition):
    if not loop._pulls.progress():
        plain(loop, desired, containers)


def cancels_nothing(pulls, waiting, plain=ImagePulls.settle):
    plain(pulls, {*waiting, *pulls._pulls})


# An agent that is wrong beside pulls: what it does, the invariant, and a walk that meets it.
WRONG_BESIDE_PULLS = [
    (ImagePulls, "_start", begun_in_the_loop, "I13", 1),
    (NodeLoop, "_ready_actions", stops_after_pulls, "I13", 16),
    (NodeLoop, "_partition", carves_after_pulls, "I13", 2),
    (ImagePulls, "settle", cancels_nothing, "I14", 2),
]


@pytest.mark.parametrize(("owner", "name", "wrong", "invariant", "seed"), WRONG_BESIDE_PULLS)
def test_a_walk_notices_an_agent_that_is_wrong_beside_pulls(
    monkeypatch, owner, name, wrong, invariant, seed
):
    monkeypatch.setattr(owner, name, wrong)
    report = random_walk(operations=60, seed=seed)
    assert report["by_invariant"].get(invariant, 0) > 0, report


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "invariant", "seed"), first_quick(*WRONG_BESIDE_PULLS)
)
def test_the_drill_notices_an_agent_that_is_wrong_beside_pulls(
    tmp_path, monkeypatch, owner, name, wrong, invariant, seed
):
    monkeypatch.setattr(owner, name, wrong)
    outcome = run_drill(tmp_path / "wrong", 0)
    assert not outcome.converged
    assert "pull" in outcome.stuck


def test_a_walk_pulls_more_than_an_engine_downloads_at_a_time():
    report = random_walk(operations=60, seed=2)
    assert report["violations"] == 0, report["first"]
    assert report["rounds_beside_full_pulls"] > 5


def test_a_kill_switch_ends_the_agent_at_its_point_and_only_there():
    switch = KillSwitch(kill_number=3)
    call = switch.around("a call", lambda: "answer")
    assert call() == "answer"
    with pytest.raises(Killed, match="before a call"):
        call()
    assert call() == "answer"
    with switch.paused():
        call()
    assert switch.passed == 5


def test_the_drill_tells_of_a_runtime_that_forgets_what_it_prepared(tmp_path, monkeypatch):
    """A drill that finds nothing is worth nothing unless it would find this."""
    calm = run_drill(tmp_path / "calm", 0)
    assert calm.converged
    plain = ProcessRuntime.prepare

    def forgetful(runtime, replica, devices):
        (runtime.home / replica.id / "identity.json").unlink(missing_ok=True)
        plain(runtime, replica, devices)

    monkeypatch.setattr(ProcessRuntime, "containers", lambda runtime: {})
    monkeypatch.setattr(ProcessRuntime, "prepare", forgetful)
    told = run_drill(tmp_path / "told", calm.points // 3)
    assert not told.converged
    assert told.stuck
    until(lambda: not strays(tmp_path), what="the forgotten processes to end with the drill")
