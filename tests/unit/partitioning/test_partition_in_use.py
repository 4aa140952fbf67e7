"""A slice or a GPU that somebody holds: who it is, how often it is tried, and when it is enough."""

from itertools import pairwise

import pytest

from agents.contract.documents import GpuMode, ReplicaState
from agents.drill.kill_points import Killed
from agents.partitioning.backoff import QUARANTINE_SECONDS
from agents.simdriver.faults import attach_client, detach_client
from agents.simdriver.state import SimulatedProcess
from tests.support.carving import HIGH, LOW, Carving
from tests.unit.agents.proc import a_process, capabilities

PID = 4_242


@pytest.fixture
def node(tmp_path):
    node = Carving(tmp_path)
    node.wish(LOW, HIGH)
    yield node
    node.end()


def held(node, start=4, **options):
    """Somebody holds the instance that begins there."""
    with node.change() as state:
        attach_client(state.gpus[0], PID, node.instance(start), **options)


def let_go(node):
    with node.change() as state:
        detach_client(state.gpus[0], PID)


def test_a_program_that_the_driver_lists_is_named_with_its_pid(node):
    a_process(node.root, PID, "python")
    held(node)
    node.wish(LOW)
    assert node.problems() == ["in_use"]
    assert f"Held by python (pid {PID})" in node.sentence()
    assert ("2g.35gb", 4) in node.slices()
    let_go(node)
    node.live(30)
    assert list(node.slices()) == [("3g.71gb", 0)] and node.problems() == []


def test_a_monitor_on_no_list_is_found_by_the_capability_that_it_has_open(node):
    instance = node.instance(4)
    capabilities(node.root, {f"gpu0/gi{instance}/access": 48, f"gpu0/gi{instance}/ci0/access": 49})
    a_process(node.root, PID, "nv-hostengine", "/dev/nvidia-caps/nvidia-cap49")
    a_process(node.root, 7, "python", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12")
    held(node, listed=False)
    node.wish(LOW)
    assert f"Held by nv-hostengine (pid {PID}): pause it" in node.sentence()
    assert "pid 7" not in node.sentence()


def test_a_client_of_the_whole_gpu_is_found_by_its_device(node):
    a_process(node.root, PID, "nsys", "/dev/nvidia0")
    a_process(node.root, 8, "nvidia-persiste", "/dev/nvidia0")
    with node.change() as state:
        attach_client(state.gpus[0], PID, listed=False)
    node.wish(LOW, HIGH, ("1g.18gb", 6, 1))
    assert f"Held by nsys (pid {PID})" in node.sentence()
    assert "pid 8" not in node.sentence()


def test_nobody_seen_is_said_as_well(node):
    held(node, listed=False)
    node.wish(LOW)
    assert "No process was found" in node.sentence()


def test_it_is_tried_ever_more_seldom(node):
    held(node)
    with node.calls("nvmlComputeInstanceDestroy") as tries:
        node.wish(LOW)
        node.live(120)
    pauses = [after - before for before, after in pairwise(tries)]
    assert pauses == [1, 2, 4, 8, 16, 20, 20, 20, 20]
    assert node.events().count("slice.failed") == 1


def test_another_wish_is_tried_at_once_however_long_the_pause(node):
    held(node)
    with node.calls("nvmlComputeInstanceDestroy") as tries:
        node.wish(LOW)
        node.live(45)
    assert node.now < tries[-1] + 10, "the next of these tries is still far away"
    node.wish(LOW, HIGH, ("1g.18gb", 6, 1))
    assert ("1g.18gb", 6) in node.slices() and node.problems() == []


def test_a_node_that_waits_says_nothing_new(node):
    held(node)
    node.wish(LOW)
    told = len(node.machine.reported)
    node.live(100)
    assert len(node.machine.reported) == told


def test_after_five_minutes_the_gpu_is_out_of_service_until_it_works_again(node):
    held(node)
    node.wish(LOW)
    node.live(int(QUARANTINE_SECONDS) + 30, every=10)
    assert node.problems() == ["quarantined"]
    (gpu,) = node.reported.gpus
    assert not gpu.healthy and "quarantined" in gpu.health_reason
    assert str(PID) in gpu.health_reason
    assert node.events().count("gpu.quarantined") == 1
    node.wish(LOW, replicas=(node.on(LOW),))
    assert [r.state for r in node.reported.replicas] == [ReplicaState.PREPARING], (
        "no device is given"
    )
    let_go(node)
    node.live(90, every=10)
    assert node.reported.gpus[0].healthy and node.problems() == []
    assert list(node.slices()) == [("3g.71gb", 0)]
    assert node.events().count("gpu.released") == 1
    assert [r.state for r in node.reported.replicas] == [ReplicaState.RUNNING]


def test_an_agent_that_starts_anew_knows_since_when_it_fails(node):
    held(node)
    node.wish(LOW)
    node.live(int(QUARANTINE_SECONDS) - 30, every=10)
    node.begin()
    node.live(60, every=10)
    assert node.problems() == ["quarantined"]
    node.begin()
    node.live(1)
    assert node.problems() == ["quarantined"]
    assert node.events().count("gpu.quarantined") == 1
    let_go(node)
    node.live(90, every=10)
    node.begin()
    node.live(1)
    assert node.problems() == [] and node.reported.gpus[0].healthy


def test_what_runs_on_a_quarantined_gpu_runs_on(node):
    replica = node.on(LOW)
    node.wish(LOW, HIGH, replicas=(replica,))
    before = node.slices()
    held(node)
    node.wish(LOW, replicas=(replica,))
    node.live(int(QUARANTINE_SECONDS) + 30, every=10)
    assert node.problems() == ["quarantined"]
    assert node.slices() == before
    assert [what for what, *_ in node.machine.runtime.story] == ["prepare", "start"]


def test_a_wish_that_asks_nothing_of_the_gpu_any_more_ends_its_quarantine(node):
    held(node)
    node.wish(LOW)
    node.live(int(QUARANTINE_SECONDS) + 30, every=10)
    node.wish(LOW, HIGH)
    assert node.reported.gpus[0].healthy and node.problems() == []


@pytest.mark.parametrize("killed", [False, True])
def test_an_instance_that_lost_only_its_compute_instance_is_deleted_later(node, killed):
    instance = node.instance(4)
    with node.change() as state:
        state.gpus[0].processes.append(SimulatedProcess(PID, 0, instance, None))
    node.wish(LOW)
    assert node.slices()[("2g.35gb", 4)] == "", "its first half went"
    assert node.problems() == ["in_use"]
    if killed:
        node.begin()
        node.live(2)
        assert node.problems() == ["in_use"], "half of ours is still ours"
    let_go(node)
    node.live(30)
    assert list(node.slices()) == [("3g.71gb", 0)] and node.problems() == []


def test_an_agent_killed_within_a_deletion_goes_on_with_it(node):
    def killed(*_):
        raise Killed("while the GPU instance is destroyed")

    with node.instead("nvmlGpuInstanceDestroy", killed), pytest.raises(Killed):
        node.wish(LOW)
    assert node.slices()[("2g.35gb", 4)] == ""
    node.begin()
    node.live(2)
    assert list(node.slices()) == [("3g.71gb", 0)]


def test_shares_are_of_a_gpu_that_is_whole_for_the_driver(node):
    node.wish(mode=GpuMode.MPS)
    assert node.slices() == {} and node.reported.gpus[0].mode is not GpuMode.MIG
    node.wish(LOW, mode=GpuMode.MPS)
    assert node.problems() == ["mode_mps"] and node.slices() == {}
