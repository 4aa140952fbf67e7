"""The processes that use a GPU, as NVML lists them, and what the GPU is to the kernel."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pynvml

from agents.nvml.errors import nvml_errors
from agents.nvml.known_gpus import KnownGpus

# nvml.h: the process is not on a GPU instance.
NO_INSTANCE = 0xFFFFFFFF
SILENT = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound)
# With an older driver, pynvml's unversioned names raise errors that are no NVMLError.
LISTS: tuple[Callable[[object], list[Any]], ...] = (
    pynvml.nvmlDeviceGetComputeRunningProcesses_v3,
    pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3,
    pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3,
)


@dataclass(frozen=True, slots=True, order=True)
class GpuProcess:
    """A process with a context on the GPU; `gpu_instance` is -1 if it is on no instance."""

    pid: int
    gpu_instance: int = -1


def gpu_processes(gpu_uuid: str, known_gpus: KnownGpus | None = None) -> list[GpuProcess]:
    """Every process that NVML lists, by pid; only root sees all. Raises NvmlFailure.

    `known_gpus`: the GPUs of a session; without them the GPU is found by its UUID."""
    processes: set[GpuProcess] = set()
    with nvml_errors(f"processes of {gpu_uuid}"):
        gpu = (known_gpus or KnownGpus()).handle(gpu_uuid)
        for listed in LISTS:
            try:
                processes |= {GpuProcess(p.pid, _instance(p.gpuInstanceId)) for p in listed(gpu)}
            except SILENT:
                continue
    return sorted(processes)


def minor_number(gpu_uuid: str) -> int:
    """N of the GPU's file /dev/nvidiaN, which is not its index. Raises NvmlFailure."""
    with nvml_errors(f"minor number of {gpu_uuid}"):
        gpu = pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid)
        return int(pynvml.nvmlDeviceGetMinorNumber(gpu))


def is_persistent(gpu_uuid: str) -> bool:
    """Whether the driver keeps the GPU ready while no program uses it. True also where it has no
    such mode. Raises NvmlFailure."""
    with nvml_errors(f"persistence mode of {gpu_uuid}"):
        gpu = pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid)
        try:
            return bool(pynvml.nvmlDeviceGetPersistenceMode(gpu))
        except SILENT:
            return True


def is_passed_through(gpu_uuid: str) -> bool:
    """Whether the GPU is passed through to this virtual machine. Raises NvmlFailure.

    Then a reset may be refused, and only a reboot helps (gpu-operator #668 and #1606)."""
    with nvml_errors(f"virtualization of {gpu_uuid}"):
        gpu = pynvml.nvmlDeviceGetHandleByUUID(gpu_uuid)
        try:
            mode = pynvml.nvmlDeviceGetVirtualizationMode(gpu)
        except SILENT:
            return False
        return bool(mode == pynvml.NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH)


def _instance(number: int | None) -> int:
    return -1 if number is None or number == NO_INSTANCE else number
