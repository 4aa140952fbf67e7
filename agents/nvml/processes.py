"""Who uses a GPU, by NVML, and what it is to the kernel."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pynvml

from agents.nvml.errors import nvml_errors

# nvml.h: no instance is meant.
NO_INSTANCE = 0xFFFFFFFF
SILENT = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound)
# The plain names raise what is no NVMLError where an older driver lacks the third version.
LISTS: tuple[Callable[[object], list[Any]], ...] = (
    pynvml.nvmlDeviceGetComputeRunningProcesses_v3,
    pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3,
    pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3,
)


@dataclass(frozen=True, slots=True, order=True)
class GpuProcess:
    """A process with a context on the GPU; `gpu_instance` is -1 where it is on no instance."""

    pid: int
    gpu_instance: int = -1


def gpu_processes(gpu_uuid: str) -> list[GpuProcess]:
    """Every process that NVML lists, by pid; only root is told of all. Raises NvmlFailure."""
    found: set[GpuProcess] = set()
    with nvml_errors(f"processes of {gpu_uuid}"):
        gpu = pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid)
        for listed in LISTS:
            try:
                found |= {GpuProcess(p.pid, _instance(p.gpuInstanceId)) for p in listed(gpu)}
            except SILENT:
                continue
    return sorted(found)


def minor_number(gpu_uuid: str) -> int:
    """N of the GPU's file /dev/nvidiaN, which is not its index. Raises NvmlFailure."""
    with nvml_errors(f"minor number of {gpu_uuid}"):
        gpu = pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid)
        return int(pynvml.nvmlDeviceGetMinorNumber(gpu))


def is_passed_through(gpu_uuid: str) -> bool:
    """Whether this machine is virtual and was handed the GPU: then a reset may be refused, and only
    a reboot helps (gpu-operator #668 and #1606). Raises NvmlFailure."""
    with nvml_errors(f"virtualization of {gpu_uuid}"):
        gpu = pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid)
        try:
            mode = pynvml.nvmlDeviceGetVirtualizationMode(gpu)
        except SILENT:
            return False
        return bool(mode == pynvml.NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH)


def _instance(number: int | None) -> int:
    return -1 if number is None or number == NO_INSTANCE else number
