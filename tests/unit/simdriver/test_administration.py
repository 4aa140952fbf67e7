"""What an administrator reads and chooses of a GPU, and processes by their kinds."""

import os

import pynvml
import pytest

from agents.simdriver.codes import Code
from agents.simdriver.state import SimulatedProcess
from tests.contract.drivers import simulated


def code_of(call, *arguments) -> int:
    with pytest.raises(pynvml.NVMLError) as refused:
        call(*arguments)
    return refused.value.value


@pytest.fixture
def gpus(node):
    return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in (0, 1)]


def test_serials_are_thirteen_digits_and_each_gpus_own(gpus):
    serials = [pynvml.nvmlDeviceGetSerial(gpu) for gpu in gpus]
    assert all(len(serial) == 13 and serial.isdigit() for serial in serials)
    assert len(set(serials)) == 2
    assert serials == [pynvml.nvmlDeviceGetSerial(gpu) for gpu in gpus]


def test_a_gpu_is_of_nvidias_brand_on_bare_metal_with_ecc_on(gpu):
    assert pynvml.nvmlDeviceGetBrand(gpu) == pynvml.NVML_BRAND_NVIDIA
    bare = pynvml.NVML_GPU_VIRTUALIZATION_MODE_NONE
    assert pynvml.nvmlDeviceGetVirtualizationMode(gpu) == bare
    assert pynvml.nvmlDeviceGetEccMode(gpu) == [1, 1]


def test_a_board_without_ecc_events_has_no_ecc_mode(node, gpu):
    with node.change() as state:
        state.gpus[0].event_types = 0x8
    assert code_of(pynvml.nvmlDeviceGetEccMode, gpu) == Code.NOT_SUPPORTED


def test_persistence_is_chosen_for_one_gpu(gpus):
    pynvml.nvmlDeviceSetPersistenceMode(gpus[1], 1)
    assert [pynvml.nvmlDeviceGetPersistenceMode(gpu) for gpu in gpus] == [0, 1]
    assert code_of(pynvml.nvmlDeviceSetPersistenceMode, gpus[0], 2) == Code.INVALID_ARGUMENT


def test_compute_mode_is_chosen_only_where_mig_is_off(gpus):
    with_mig, whole = gpus
    exclusive = pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
    pynvml.nvmlDeviceSetComputeMode(whole, exclusive)
    assert pynvml.nvmlDeviceGetComputeMode(whole) == exclusive
    assert code_of(pynvml.nvmlDeviceSetComputeMode, with_mig, exclusive) == Code.NOT_SUPPORTED
    assert pynvml.nvmlDeviceGetComputeMode(with_mig) == pynvml.NVML_COMPUTEMODE_DEFAULT


@pytest.mark.parametrize(
    ("mode", "code"),
    [
        (pynvml.NVML_COMPUTEMODE_EXCLUSIVE_THREAD, Code.NOT_SUPPORTED),
        (pynvml.NVML_COMPUTEMODE_COUNT, Code.INVALID_ARGUMENT),
    ],
)
def test_a_compute_mode_that_is_none_is_refused(gpus, mode, code):
    assert code_of(pynvml.nvmlDeviceSetComputeMode, gpus[1], mode) == code


def test_a_power_limit_is_enforced_within_what_the_board_allows(gpu):
    lowest, highest = pynvml.nvmlDeviceGetPowerManagementLimitConstraints(gpu)
    assert pynvml.nvmlDeviceGetPowerManagementLimit(gpu) == highest
    pynvml.nvmlDeviceSetPowerManagementLimit(gpu, lowest)
    assert pynvml.nvmlDeviceGetPowerManagementLimit(gpu) == lowest
    assert pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) == lowest
    for limit in (lowest - 1, highest + 1):
        assert code_of(pynvml.nvmlDeviceSetPowerManagementLimit, gpu, limit) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda gpu: pynvml.nvmlDeviceSetPersistenceMode(gpu, 1),
        lambda gpu: pynvml.nvmlDeviceSetComputeMode(gpu, 3),
        lambda gpu: pynvml.nvmlDeviceSetPowerManagementLimit(gpu, 400_000),
    ],
)
def test_only_root_chooses(node, gpus, change):
    with node.change() as state:
        state.is_root = False
    assert code_of(change, gpus[1]) == Code.NO_PERMISSION


def test_clients_of_mps_are_told_by_their_own_call_too(node, gpus):
    with node.change() as state:
        state.gpus[1].processes = [SimulatedProcess(11, 100), SimulatedProcess(12, 200, mps=True)]

    def pids(call) -> list[int]:
        return [process.pid for process in call(gpus[1])]

    assert pids(pynvml.nvmlDeviceGetComputeRunningProcesses) == [11, 12]
    assert pids(pynvml.nvmlDeviceGetMPSComputeRunningProcesses) == [12]
    assert pids(pynvml.nvmlDeviceGetGraphicsRunningProcesses) == []


def test_a_mig_device_tells_only_its_own_processes(node, gpu):
    made = pynvml.nvmlDeviceCreateGpuInstance(gpu, 14)
    computes = [pynvml.nvmlGpuInstanceCreateComputeInstance(made, 0) for _ in range(2)]
    number = pynvml.nvmlGpuInstanceGetInfo(made).id
    with node.change() as state:
        state.gpus[0].processes = [SimulatedProcess(20 + i, 100, number, i) for i in (0, 1)]
    devices = [pynvml.nvmlComputeInstanceGetInfo(compute).device for compute in computes]
    seen = [pynvml.nvmlDeviceGetComputeRunningProcesses(device) for device in devices]
    assert [[process.pid for process in found] for found in seen] == [[20], [21]]


def test_a_process_has_the_name_that_it_runs_under(node):
    assert "python" in pynvml.nvmlSystemGetProcessName(os.getpid())
    assert code_of(pynvml.nvmlSystemGetProcessName, 2**31 - 1) == Code.NOT_FOUND


def test_the_nearest_gpus_are_told_level_by_level(tmp_path):
    with simulated(tmp_path / "driver.json", "H200-141GB", gpus=4):
        gpus = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(4)]

        def near(level: int) -> list[int]:
            found = pynvml.nvmlDeviceGetTopologyNearestGpus(gpus[0], level)
            return [pynvml.nvmlDeviceGetIndex(other) for other in found]

        levels = {level: near(level) for level in (10, 20, 30, 40, 50)}
        assert levels == {10: [], 20: [], 30: [], 40: [1], 50: [2, 3]}
        assert code_of(pynvml.nvmlDeviceGetTopologyNearestGpus, gpus[0], 7) == Code.INVALID_ARGUMENT
