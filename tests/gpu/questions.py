"""What is asked of each GPU, by the name under which the report has it. All of it only reads.

An answer is {"code": "SUCCESS", "value": ...}; a refusal has the name of NVML's code and no value.
Memory in MiB, power in mW, energy in mJ, clocks in MHz, rates in KiB/s.
"""

from collections.abc import Callable
from ctypes import byref, c_uint
from typing import Any

import pynvml

from tests.gpu import gpm

CODES = {
    value: name.removeprefix("NVML_ERROR_")
    for name, value in vars(pynvml).items()
    if name.startswith("NVML_ERROR_") and isinstance(value, int)
}
SUCCESS = "SUCCESS"
NOBODY = "GPU-00000000-0000-0000-0000-000000000000"
# The scope of a field of NVLink: its number, or this.
ALL_LINKS = 0xFFFFFFFF
NO_PROFILE, NO_INSTANCE, NO_LINK = 250, 250, 99

Question = Callable[[Any], Any]


def _field(gpu: Any, field: int) -> int:
    """A value by its field number, over all links; each has a code of its own."""
    (value,) = pynvml.nvmlDeviceGetFieldValues(gpu, [(field, ALL_LINKS)])
    if value.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(value.nvmlReturn)
    return int(value.value.ullVal)


# What does not change from one moment to the next: compared with the twin by value.
FACTS: dict[str, Question] = {
    "architecture": lambda gpu: pynvml.nvmlDeviceGetArchitecture(gpu),
    "compute_capability": lambda gpu: list(pynvml.nvmlDeviceGetCudaComputeCapability(gpu)),
    "cores": lambda gpu: pynvml.nvmlDeviceGetNumGpuCores(gpu),
    "brand": lambda gpu: pynvml.nvmlDeviceGetBrand(gpu),
    "max_mig_devices": lambda gpu: pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu),
    "ecc_mode": lambda gpu: list(pynvml.nvmlDeviceGetEccMode(gpu)),
    "event_types": lambda gpu: pynvml.nvmlDeviceGetSupportedEventTypes(gpu),
    "max_sm_clock_mhz": lambda gpu: pynvml.nvmlDeviceGetMaxClockInfo(gpu, pynvml.NVML_CLOCK_SM),
    "power_limits_mw": lambda gpu: pynvml.nvmlDeviceGetPowerManagementLimitConstraints(gpu),
    "virtualization_mode": lambda gpu: pynvml.nvmlDeviceGetVirtualizationMode(gpu),
    "gpm_supported": lambda gpu: pynvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice,
}
# Versioned where pynvml wants it: without, an older driver is a mismatch and not a refusal.
# What goes up and down: compared with the twin by whether it is answered.
TELEMETRY: dict[str, Question] = {
    "memory_mib": lambda gpu: pynvml.nvmlDeviceGetMemoryInfo(gpu).used >> 20,
    "memory_v2_reserved_mib": lambda gpu: (
        pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2).reserved >> 20
    ),
    "bar1_used_mib": lambda gpu: pynvml.nvmlDeviceGetBAR1MemoryInfo(gpu).bar1Used >> 20,
    "temperature_c": lambda gpu: pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU),
    "power_mw": lambda gpu: pynvml.nvmlDeviceGetPowerUsage(gpu),
    "power_limit_mw": lambda gpu: pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu),
    "energy_mj": lambda gpu: pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu),
    "utilization_percent": lambda gpu: pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
    "gpm_activity_percent": gpm.activity,
    "gpm_activity_of_instances": gpm.activity_of_instances,
    "sm_clock_mhz": lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM),
    "memory_clock_mhz": lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_MEM),
    "clock_event_reasons": lambda gpu: pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpu),
    "performance_state": lambda gpu: pynvml.nvmlDeviceGetPerformanceState(gpu),
    "nvlink_received_kib": lambda gpu: _field(gpu, pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX),
    "compute_processes": lambda gpu: len(pynvml.nvmlDeviceGetComputeRunningProcesses_v3(gpu)),
    "graphics_processes": lambda gpu: len(pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3(gpu)),
    "mps_processes": lambda gpu: len(pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3(gpu)),
    "remapped_rows": lambda gpu: list(pynvml.nvmlDeviceGetRemappedRows(gpu)),
    "uncorrected_ecc_errors": lambda gpu: pynvml.nvmlDeviceGetTotalEccErrors(gpu, 1, 0),
}
# What an administrator sets, and we must leave as we found it.
SETTINGS: dict[str, Question] = {
    "mig_mode": lambda gpu: list(pynvml.nvmlDeviceGetMigMode(gpu)),
    "compute_mode": lambda gpu: pynvml.nvmlDeviceGetComputeMode(gpu),
    "persistence_mode": lambda gpu: pynvml.nvmlDeviceGetPersistenceMode(gpu),
    "power_limit_mw": lambda gpu: pynvml.nvmlDeviceGetPowerManagementLimit(gpu),
    "sm_application_clock": lambda gpu: pynvml.nvmlDeviceGetApplicationsClock(
        gpu, pynvml.NVML_CLOCK_SM
    ),
    "memory_application_clock": lambda gpu: pynvml.nvmlDeviceGetApplicationsClock(
        gpu, pynvml.NVML_CLOCK_MEM
    ),
    "ecc_mode": lambda gpu: list(pynvml.nvmlDeviceGetEccMode(gpu)),
    "virtualization_mode": lambda gpu: pynvml.nvmlDeviceGetVirtualizationMode(gpu),
}
# Calls that need MIG or root, or are wrong: which code comes is what differs between drivers.
PROBES: dict[str, Question] = {
    "uuid_of_nobody": lambda gpu: pynvml.nvmlDeviceGetHandleByUUID(NOBODY),
    "index_beyond_the_last": lambda gpu: pynvml.nvmlDeviceGetHandleByIndex(
        pynvml.nvmlDeviceGetCount()
    ),
    "mig_mode": lambda gpu: pynvml.nvmlDeviceGetMigMode(gpu),
    "profile_beyond_the_last": lambda gpu: pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 99),
    "places_of_no_profile": lambda gpu: pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(
        gpu, NO_PROFILE, None, byref(c_uint())
    ),
    "instances_of_no_profile": lambda gpu: pynvml.nvmlDeviceGetGpuInstances(
        gpu, NO_PROFILE, (pynvml.c_nvmlGpuInstance_t * 8)(), byref(c_uint())
    ),
    "room_for_no_profile": lambda gpu: pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(
        gpu, NO_PROFILE
    ),
    "instance_of_no_id": lambda gpu: pynvml.nvmlDeviceGetGpuInstanceById(gpu, NO_INSTANCE),
    "mig_device_beyond_the_last": lambda gpu: pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 99),
    "parent_of_a_whole_gpu": lambda gpu: pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(gpu),
    "instance_id_of_a_whole_gpu": lambda gpu: pynvml.nvmlDeviceGetGpuInstanceId(gpu),
    "nvlink_beyond_the_last": lambda gpu: pynvml.nvmlDeviceGetNvLinkState(gpu, NO_LINK),
    "peer_of_itself": lambda gpu: pynvml.nvmlDeviceGetP2PStatus(gpu, gpu, 0),
    "numa_node_of_its_own": lambda gpu: pynvml.nvmlDeviceGetNumaNodeId(gpu),
}


def question_answers(questions: dict[str, Question], gpu: Any) -> dict[str, Any]:
    """The answer to each, by its name."""
    return {name: answer(question, gpu) for name, question in questions.items()}


def answer(question: Question, gpu: Any) -> dict[str, Any]:
    """A pynvml without the function counts as a driver without it."""
    try:
        return {"code": SUCCESS, "value": question(gpu)}
    except pynvml.NVMLError as error:
        return {"code": CODES.get(error.value, str(error.value))}
    except AttributeError as error:
        if error.obj is not pynvml:
            raise
        return {"code": "FUNCTION_NOT_FOUND"}
