"""What the driver answers to calls that are wrong: a code, the one that nvml.h names."""

from ctypes import byref, c_uint

import pynvml
import pytest

from agents.simdriver.codes import MESSAGES, Code
from agents.simdriver.install import install, uninstall
from tests.contract.drivers import smallest


def code_of(call, *arguments, **options) -> int:
    with pytest.raises(pynvml.NVMLError) as refused:
        call(*arguments, **options)
    return refused.value.value


@pytest.fixture
def instance(node, gpu):
    """A GPU instance of one slice, with its compute instance."""
    made = pynvml.nvmlDeviceCreateGpuInstance(gpu, 19)
    pynvml.nvmlGpuInstanceCreateComputeInstance(made, 0)
    return made


@pytest.fixture
def mig_device(gpu, instance):
    return pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)


def test_our_codes_and_words_are_those_of_nvml():
    for code in Code:
        name = "NVML_SUCCESS" if code is Code.SUCCESS else f"NVML_ERROR_{code.name}"
        assert getattr(pynvml, name) == code
    assert set(MESSAGES) == set(Code)


def test_before_the_session_and_after_it_nothing_answers(tmp_path, node):
    pynvml.nvmlShutdown()
    assert code_of(pynvml.nvmlDeviceGetCount) == Code.UNINITIALIZED
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetCount() == 2


def test_a_driver_that_was_never_made_cannot_be_installed(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"agents\.simdriver create"):
        install(tmp_path / "nobody.json")


def test_uninstalled_the_simulation_is_out_of_the_way(node):
    uninstall()
    assert pynvml.nvmlLib is None
    install(node.store.path)
    pynvml.nvmlInit()


def test_a_call_that_the_driver_does_not_have_is_function_not_found(gpu):
    asked = code_of(pynvml.nvmlDeviceGetFanSpeed, gpu)
    assert asked == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND


@pytest.mark.parametrize(
    "call",
    [
        pynvml.nvmlDeviceGetName,
        pynvml.nvmlDeviceGetUUID,
        pynvml.nvmlDeviceGetMemoryInfo,
        pynvml.nvmlDeviceGetMigMode,
        pynvml.nvmlGpuInstanceDestroy,
        pynvml.nvmlComputeInstanceDestroy,
    ],
    ids=lambda call: call.__name__,
)
def test_no_handle_is_an_invalid_argument(node, call):
    assert code_of(call, None) == Code.INVALID_ARGUMENT


def test_an_unknown_uuid_and_an_unknown_bus_are_not_found(node):
    assert code_of(pynvml.nvmlDeviceGetHandleByUUID, "MIG-nobody") == Code.NOT_FOUND
    assert code_of(pynvml.nvmlDeviceGetHandleByPciBusId, "00000000:FF:00.0") == Code.NOT_FOUND


def test_a_handle_of_what_was_destroyed_is_stale_also_when_its_place_is_taken_again(
    gpu, instance, mig_device
):
    uuid = pynvml.nvmlDeviceGetUUID(mig_device)
    info = pynvml.nvmlGpuInstanceGetInfo(instance)
    (compute,) = compute_instances(instance)
    pynvml.nvmlComputeInstanceDestroy(compute)
    pynvml.nvmlGpuInstanceDestroy(instance)
    assert code_of(pynvml.nvmlGpuInstanceGetInfo, instance) == Code.INVALID_ARGUMENT
    again = pynvml.nvmlDeviceCreateGpuInstance(gpu, 19)
    pynvml.nvmlGpuInstanceCreateComputeInstance(again, 0)
    assert pynvml.nvmlGpuInstanceGetInfo(again).id == info.id
    assert code_of(pynvml.nvmlComputeInstanceGetInfo, compute) == Code.INVALID_ARGUMENT
    assert code_of(pynvml.nvmlDeviceGetHandleByUUID, uuid) == Code.NOT_FOUND


def compute_instances(instance) -> list:
    array, count = (pynvml.c_nvmlComputeInstance_t * 7)(), c_uint()
    pynvml.nvmlGpuInstanceGetComputeInstances(instance, 0, array, byref(count))
    return list(array)[: count.value]


def test_a_room_too_small_for_the_placements_is_told_with_how_many_there_are(gpu):
    array, count = (pynvml.c_nvmlGpuInstancePlacement_t * 2)(), c_uint(2)
    call = pynvml.nvmlDeviceGetGpuInstancePossiblePlacements
    assert code_of(call, gpu, 19, array, byref(count)) == Code.INSUFFICIENT_SIZE
    assert count.value == 7


def test_numbers_of_profiles_are_checked(gpu, instance):
    info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo
    beyond = pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT
    assert code_of(info, gpu, beyond) == Code.INVALID_ARGUMENT
    assert code_of(info, gpu, 5) == Code.NOT_SUPPORTED, "no board has eight slices to compute"
    assert code_of(pynvml.nvmlDeviceCreateGpuInstance, gpu, 99) == Code.INVALID_ARGUMENT
    compute = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo
    assert code_of(compute, instance, 1, 0) == Code.NOT_SUPPORTED, "wider than its instance"
    assert code_of(compute, instance, 99, 0) == Code.INVALID_ARGUMENT
    assert code_of(compute, instance, 0, 1) == Code.INVALID_ARGUMENT, "no such engine profile"


def test_a_placement_has_to_be_named(gpu):
    call = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement
    assert code_of(call, gpu, 19, None) == Code.INVALID_ARGUMENT


def test_versions_of_structs_are_checked(gpu, instance):
    info = pynvml.c_nvmlGpuInstanceProfileInfo_v2_t()
    info.version = 7
    ask = pynvml._nvmlGetFunctionPointer("nvmlDeviceGetGpuInstanceProfileInfoV")
    assert ask(gpu, 0, byref(info)) == Code.ARGUMENT_VERSION_MISMATCH
    info = pynvml.c_nvmlComputeInstanceProfileInfo_v2_t()
    info.version = 7
    ask = pynvml._nvmlGetFunctionPointer("nvmlGpuInstanceGetComputeInstanceProfileInfoV")
    assert ask(instance, 0, 0, byref(info)) == Code.ARGUMENT_VERSION_MISMATCH


def test_a_mode_that_is_neither_on_nor_off_is_an_invalid_argument(gpu):
    assert code_of(pynvml.nvmlDeviceSetMigMode, gpu, 2) == Code.INVALID_ARGUMENT
    assert pynvml.nvmlDeviceGetMigMode(gpu) == [1, 1]


def test_a_mode_change_that_has_to_wait_is_a_success_with_a_status(gpu, instance):
    assert pynvml.nvmlDeviceSetMigMode(gpu, 0) == pynvml.NVML_ERROR_IN_USE
    assert pynvml.nvmlDeviceGetMigMode(gpu) == [1, 0]


def test_mig_devices_end_at_the_last_one_and_belong_to_their_gpu(node, gpu, mig_device):
    by_index = pynvml.nvmlDeviceGetMigDeviceHandleByIndex
    assert code_of(by_index, gpu, 1) == Code.NOT_FOUND
    assert code_of(by_index, gpu, 99) == Code.NOT_FOUND
    parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig_device)
    assert pynvml.nvmlDeviceGetUUID(parent) == node.gpu
    call = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle
    assert code_of(call, gpu) == Code.INVALID_ARGUMENT
    assert code_of(pynvml.nvmlDeviceGetGpuInstanceId, gpu) == Code.INVALID_ARGUMENT
    kinds = [pynvml.nvmlDeviceIsMigDeviceHandle(one).value for one in (gpu, mig_device)]
    assert kinds == [0, 1]


def test_sensors_are_the_whole_gpus_and_utilization_is_not_told_in_mig_mode(gpu, mig_device):
    temperature = pynvml.nvmlDeviceGetTemperature
    assert temperature(gpu, pynvml.NVML_TEMPERATURE_GPU) > 0
    assert code_of(temperature, mig_device, pynvml.NVML_TEMPERATURE_GPU) == Code.INVALID_ARGUMENT
    assert code_of(pynvml.nvmlDeviceGetPowerUsage, mig_device) == Code.INVALID_ARGUMENT
    assert code_of(pynvml.nvmlDeviceGetUtilizationRates, gpu) == Code.NOT_SUPPORTED


def test_a_lost_gpu_answers_nothing_any_more(node, gpu, instance):
    with node.change() as state:
        state.gpus[0].lost = True
    calls = (pynvml.nvmlDeviceGetName, pynvml.nvmlDeviceGetMigMode, pynvml.nvmlDeviceGetMemoryInfo)
    assert [code_of(call, gpu) for call in calls] == [Code.GPU_IS_LOST] * 3
    assert code_of(pynvml.nvmlGpuInstanceGetInfo, instance) == Code.GPU_IS_LOST
    assert code_of(pynvml.nvmlDeviceGetHandleByIndex, 0) == Code.GPU_IS_LOST
    assert code_of(pynvml.nvmlDeviceGetHandleByUUID, state.gpus[0].uuid) == Code.GPU_IS_LOST


def test_a_refused_call_changes_nothing_on_disk(node, gpu, instance):
    before = node.store.path.read_bytes()
    profile_id, size = smallest(node.board)
    place = pynvml.c_nvmlGpuInstancePlacement_t(6, size)  # the driver put the instance there
    call = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement
    assert code_of(call, gpu, profile_id, byref(place)) == Code.INSUFFICIENT_RESOURCES
    assert code_of(pynvml.nvmlGpuInstanceDestroy, instance) == Code.IN_USE
    assert node.store.path.read_bytes() == before
