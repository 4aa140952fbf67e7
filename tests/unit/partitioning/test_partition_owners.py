"""Instances that others made, and our own after every kind of forgetting."""

from ctypes import byref

import pynvml
import pytest

from agents.admission.policy import NodePolicy
from agents.contract.documents import GpuMode, ReplicaState
from agents.drill.kill_points import Killed
from tests.support.carving import HIGH, LOW, Carving


@pytest.fixture
def node(tmp_path):
    node = Carving(tmp_path, gpus=2)
    yield node
    node.end()


def test_a_driver_that_names_a_profile_otherwise_is_understood_by_its_id(node):
    plain = pynvml.nvmlLib.nvmlDeviceGetGpuInstanceProfileInfoV

    def renamed(gpu, query, info):
        code = plain(gpu, query, info)
        info._obj.name = info._obj.name.replace("71gb", "72gb").encode()
        return code

    with node.instead("nvmlDeviceGetGpuInstanceProfileInfoV", renamed):
        node.wish(("3g.71gb", 4, 4))
        assert list(node.slices()) == [("3g.72gb", 4)]
        made = node.slices()
        node.live(5)
    assert [(s.profile, s.start) for s in node.reported.slices] == [("3g.71gb", 4)]
    assert node.problems() == []
    assert set(node.slices().values()) == set(made.values()), "kept, not made again"


def by_hand(node, profile_id=14, start=4, size=2):
    """An administrator makes an instance on the first GPU."""
    if not node.machine.nvml.devices()[0].mig_current:
        node.machine.nvml.set_mig_mode(node.gpu, on=True)
    return node.machine.nvml.create_instance(node.gpu, profile_id, start, size)


def test_a_gpu_with_an_instance_of_somebody_else_is_left_alone_and_says_so(node):
    node.wish(LOW)
    theirs = by_hand(node)
    node.wish((0, "1g.18gb", 6, 1), (1, *LOW))
    assert node.slices()[("2g.35gb", 4)] == theirs.uuid
    assert set(node.slices()) == {("3g.71gb", 0), ("2g.35gb", 4)}, "nothing is made or deleted"
    assert set(node.slices(1)) == {("3g.71gb", 0)}, "the other GPU goes on"
    assert node.problems() == ["unmanaged"]
    assert "2g.35gb at 4" in node.sentence() and "nvidia-smi mig -i 0 -dgi" in node.sentence()
    first, second = node.reported.gpus
    assert not first.healthy and "unmanaged" in first.health_reason
    assert second.healthy
    assert node.events().count("gpu.unmanaged") == 1


def test_nothing_new_is_given_of_it_and_what_runs_there_runs_on(node):
    runs = node.on(LOW)
    node.wish(LOW, HIGH, replicas=(runs,))
    by_hand(node, profile_id=19, start=6, size=1)
    node.live(len(node.machine.gpus))
    node.wish(LOW, HIGH, replicas=(runs, node.on(HIGH, id="r-2")))
    states = {r.id: r.state for r in node.reported.replicas}
    assert states == {"r-1": ReplicaState.RUNNING, "r-2": ReplicaState.PREPARING}


def test_once_the_admin_deleted_them_the_gpu_is_managed_again(node):
    theirs = by_hand(node)
    node.wish(LOW)
    assert node.problems() == ["unmanaged"]
    node.machine.nvml.destroy_instance(node.gpu, theirs.instance_id)
    node.live(2)
    assert node.problems() == [] and node.reported.gpus[0].healthy
    assert set(node.slices()) == {("3g.71gb", 0)}


def test_a_fresh_node_with_leftovers_waits_for_its_owner(node):
    by_hand(node)
    node.live(1)
    assert node.problems() == ["unmanaged"], "also before the first document"
    node.wish(mode=GpuMode.WHOLE)
    assert set(node.slices()) == {("2g.35gb", 4)}
    node.begin(NodePolicy(adopt_instances=True))
    node.live(8)
    assert node.slices() == {} and node.problems() == []
    assert all(gpu.healthy for gpu in node.reported.gpus)


def test_an_instance_that_is_wanted_just_so_is_taken_over(node):
    theirs = by_hand(node)
    node.wish(HIGH)
    assert node.slices() == {("2g.35gb", 4): theirs.uuid} and node.problems() == []
    node.wish()
    assert node.slices() == {}, "and is ours to delete"


def test_ours_are_ours_after_a_kill_and_without_the_last_document(node):
    node.wish(LOW, HIGH)
    node.machine.journal.store_fact("desired", "")
    node.begin()
    node.live(3)
    assert set(node.slices()) == {("3g.71gb", 0), ("2g.35gb", 4)} and node.problems() == []
    node.wish(LOW)
    assert set(node.slices()) == {("3g.71gb", 0)} and node.problems() == []


@pytest.mark.parametrize("is_made", [False, True])
@pytest.mark.parametrize(
    "symbol",
    ["nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance"],
)
def test_what_an_agent_made_when_it_was_killed_is_known_by_its_intent(node, symbol, is_made):
    node.wish()
    plain = getattr(pynvml.nvmlLib, symbol)

    def killed(*arguments):
        if is_made:
            plain(*arguments)
        raise Killed(symbol)

    with node.instead(symbol, killed), pytest.raises(Killed):
        node.wish(LOW)
    node.begin()
    node.wish()
    assert node.slices() == {} and node.problems() == []
    assert all(gpu.healthy for gpu in node.reported.gpus)


def test_half_an_instance_where_ours_was_deleted_is_not_ours(node):
    node.wish(HIGH)
    node.wish()
    place = pynvml.c_nvmlGpuInstancePlacement_t(4, 2)
    gpu = pynvml.nvmlDeviceGetHandleByUUID(node.gpu)
    pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, 14, byref(place))
    node.begin()
    node.live(3)
    assert node.slices() == {("2g.35gb", 4): ""} and node.problems() == ["unmanaged"]


def test_an_instance_in_the_place_of_ours_is_not_ours(node):
    node.wish(HIGH)
    node.machine.nvml.destroy_instance(node.gpu, node.instance(4))
    by_hand(node)
    node.wish()
    assert node.problems() == ["unmanaged"]
    assert set(node.slices()) == {("2g.35gb", 4)}
