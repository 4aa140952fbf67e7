"""Partition changes through the agent's NVML, on a driver that refuses as real ones do."""

import json
import subprocess
import sys
from ctypes import byref

import pynvml
import pytest

from agents.contract.boards import known_boards
from agents.nvml.errors import NvmlCode, NvmlFailure
from agents.nvml.processes import GpuProcess, gpu_processes
from agents.simdriver.state import SimulatedProcess
from tests.contract.drivers import (
    WITH_MIG,
    WITHOUT_MIG,
    SimulatedNode,
    every_place,
    handle,
    simulated,
    smallest,
)

LIST = """
import json, pathlib, sys
from agents.nvml.session import Nvml
from agents.simdriver.install import install
install(pathlib.Path(sys.argv[1]))
nvml = Nvml()
gpu = nvml.devices()[0]
print(json.dumps([gpu.mig_current, [[i.start, i.size, i.uuid] for i in nvml.instances(gpu.uuid)]]))
"""


@pytest.fixture(params=WITH_MIG)
def node(request, tmp_path):
    """The first of its two GPUs is in MIG mode, and empty."""
    with simulated(tmp_path / "driver.json", request.param) as node:
        node.nvml.set_mig_mode(node.gpu, on=True)
        yield node


def refusal(call, *arguments, **options) -> NvmlCode:
    with pytest.raises(NvmlFailure) as failure:
        call(*arguments, **options)
    return failure.value.code


def make_smallest(node: SimulatedNode, start: int = 0):
    profile_id, size = smallest(node.board)
    return node.nvml.create_instance(node.gpu, profile_id, start, size)


@pytest.mark.parametrize(("key", "name", "place"), every_place(), ids=str)
def test_each_profile_can_be_made_at_each_place_of_the_table(key, name, place, tmp_path):
    profile = known_boards()[key].profile(name)
    with simulated(tmp_path / "driver.json", key, gpus=1) as node:
        node.nvml.set_mig_mode(node.gpu, on=True)
        made = node.nvml.create_instance(node.gpu, profile.id, place.start, place.size)
        assert (made.profile, made.profile_id) == (name, profile.id)
        assert (made.start, made.size) == (place.start, place.size)
        assert made.uuid.startswith("MIG-")
        assert node.nvml.instances(node.gpu) == [made]
        node.nvml.destroy_instance(node.gpu, made.instance_id)
        assert node.nvml.instances(node.gpu) == []


def test_mig_is_a_matter_of_one_gpu(node):
    assert [gpu.mig_current for gpu in node.nvml.devices()] == [True, False]


def test_an_instance_gets_a_new_uuid_each_time_it_is_made(node):
    uuids = set()
    for _ in range(5):
        made = make_smallest(node)
        uuids.add(made.uuid)
        node.nvml.destroy_instance(node.gpu, made.instance_id)
    assert len(uuids) == 5


def test_a_driver_that_repeats_uuids_gives_each_place_its_own_again(node):
    with node.change() as state:
        state.repeats_mig_uuids = True
    made = [make_smallest(node, start) for start in (0, 1)]
    assert made[0].uuid != made[1].uuid
    for one in made:
        node.nvml.destroy_instance(node.gpu, one.instance_id)
    assert [make_smallest(node, start).uuid for start in (1, 0)] == [made[1].uuid, made[0].uuid]


def test_a_place_that_is_taken_has_not_enough_resources(node):
    make_smallest(node)
    assert refusal(make_smallest, node) is NvmlCode.INSUFFICIENT_RESOURCES


def test_a_place_that_the_table_does_not_know_is_an_invalid_argument(node):
    profile_id, size = smallest(node.board)
    create = node.nvml.create_instance
    beyond = node.board.memory_slices
    assert refusal(create, node.gpu, profile_id, beyond, size) is NvmlCode.INVALID_ARGUMENT
    assert refusal(create, node.gpu, profile_id, 0, size + 1) is NvmlCode.INVALID_ARGUMENT
    assert refusal(create, node.gpu, 99, 0, size) is NvmlCode.INVALID_ARGUMENT


def test_no_more_instances_of_a_profile_than_its_most(node):
    profile = min(node.board.profiles, key=lambda p: (p.memory_slices, p.query_index))
    for start in profile.starts[: profile.max_instances]:
        make_smallest(node, start)
    left = pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(handle(node.gpu), profile.id)
    assert left == 0
    with pytest.raises(pynvml.NVMLError_InsufficientResources):
        pynvml.nvmlDeviceCreateGpuInstance(handle(node.gpu), profile.id)


def test_without_mig_mode_nothing_can_be_made(node):
    whole = node.nvml.devices()[1].uuid
    profile_id, size = smallest(node.board)
    assert refusal(node.nvml.create_instance, whole, profile_id, 0, size) is NvmlCode.NOT_SUPPORTED
    assert node.nvml.instances(whole) == []


def test_a_gpu_instance_with_a_compute_instance_cannot_be_destroyed(node):
    made = make_smallest(node)
    instance = pynvml.nvmlDeviceGetGpuInstanceById(handle(node.gpu), made.instance_id)
    with pytest.raises(pynvml.NVMLError_InUse):
        pynvml.nvmlGpuInstanceDestroy(instance)
    assert node.nvml.instances(node.gpu) == [made]


def test_a_gpu_instance_alone_holds_its_place_without_a_uuid_until_it_is_completed(node):
    profile_id, size = smallest(node.board)
    place = pynvml.c_nvmlGpuInstancePlacement_t(0, size)
    pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle(node.gpu), profile_id, byref(place))
    (half,) = node.nvml.instances(node.gpu)
    assert (half.start, half.size, half.uuid) == (0, size, "")
    node.nvml.complete_instance(node.gpu, half.instance_id)
    (whole,) = node.nvml.instances(node.gpu)
    assert whole.uuid.startswith("MIG-")
    node.nvml.destroy_instance(node.gpu, whole.instance_id)


def test_mig_mode_does_not_change_while_instances_exist_and_says_so(node):
    made = make_smallest(node)
    assert refusal(node.nvml.set_mig_mode, node.gpu, on=False) is NvmlCode.IN_USE
    gpu = node.nvml.devices()[0]
    assert (gpu.mig_current, gpu.mig_pending) == (True, False)
    node.nvml.destroy_instance(node.gpu, made.instance_id)
    node.nvml.set_mig_mode(node.gpu, on=False)
    gpu = node.nvml.devices()[0]
    assert (gpu.mig_current, gpu.mig_pending) == (False, False)


def test_a_mode_that_is_already_there_can_be_asked_for_again(node):
    make_smallest(node)
    node.nvml.set_mig_mode(node.gpu, on=True)
    assert len(node.nvml.instances(node.gpu)) == 1


def test_an_instance_that_a_program_holds_is_in_use(node):
    made = make_smallest(node)
    with node.change() as state:
        held = SimulatedProcess(4_242, 1_000, gpu_instance=made.instance_id, compute_instance=0)
        state.gpus[0].processes.append(held)
    assert refusal(node.nvml.destroy_instance, node.gpu, made.instance_id) is NvmlCode.IN_USE
    assert gpu_processes(node.gpu) == [GpuProcess(4_242, made.instance_id)]
    assert node.nvml.instances(node.gpu) == [made], "nothing of it was taken"


def test_a_gpu_that_a_monitor_holds_is_in_use(node):
    with node.change() as state:
        state.gpus[0].held_by_client = True
    assert refusal(make_smallest, node) is NvmlCode.IN_USE


def test_without_root_nothing_changes_but_all_is_read(node):
    made = make_smallest(node)
    with node.change() as state:
        state.is_root = False
    assert refusal(make_smallest, node, 1) is NvmlCode.NO_PERMISSION
    assert refusal(node.nvml.destroy_instance, node.gpu, made.instance_id) is NvmlCode.NO_PERMISSION
    assert refusal(node.nvml.set_mig_mode, node.gpu, on=False) is NvmlCode.NO_PERMISSION
    assert node.nvml.instances(node.gpu) == [made]


def test_an_instance_that_is_gone_is_not_found(node):
    made = make_smallest(node)
    node.nvml.destroy_instance(node.gpu, made.instance_id)
    assert (
        refusal(node.nvml.destroy_instance, node.gpu, made.instance_id) is NvmlCode.NO_SUCH_DEVICE
    )
    assert (
        refusal(node.nvml.complete_instance, node.gpu, made.instance_id) is NvmlCode.NO_SUCH_DEVICE
    )


def test_a_gpu_that_fell_off_the_bus_is_left_out_and_the_others_stay(node):
    lost = node.gpu
    with node.change() as state:
        state.gpus[0].lost = True
    (left,) = node.nvml.devices()
    assert left.index == 1
    assert refusal(node.nvml.instances, lost) in (NvmlCode.GPU_LOST, NvmlCode.NO_SUCH_DEVICE)


def test_the_state_survives_a_new_process_and_changes_of_another_are_seen_at_once(node):
    made = make_smallest(node)
    ask = [sys.executable, "-c", LIST, str(node.store.path)]
    told = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
    assert json.loads(told) == [True, [[made.start, made.size, made.uuid]]]
    end = LIST + "nvml.destroy_instance(gpu.uuid, nvml.instances(gpu.uuid)[0].instance_id)"
    subprocess.run([sys.executable, "-c", end, str(node.store.path)], check=True)
    assert node.nvml.instances(node.gpu) == []


def test_a_board_without_mig_refuses_the_mode(tmp_path):
    with simulated(tmp_path / "driver.json", WITHOUT_MIG) as node:
        assert refusal(node.nvml.set_mig_mode, node.gpu, on=True) is NvmlCode.NOT_SUPPORTED
