"""The compute mode of a GPU or a MIG instance."""

import pynvml

from agents.nvml.errors import nvml_errors


def set_exclusive(uuid: str, *, on: bool) -> None:
    """Allow only one process on the device (under MPS: its server), or any number again.

    On a GPU in MIG mode only the instances have a compute mode, so `uuid` names one (nvml.h). Needs
    root. Raises NvmlFailure."""
    mode = pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS if on else pynvml.NVML_COMPUTEMODE_DEFAULT
    with nvml_errors(f"compute mode of {uuid}"):
        pynvml.nvmlDeviceSetComputeMode(pynvml.nvmlDeviceGetHandleByUUID(uuid), mode)


def is_exclusive(uuid: str) -> bool:
    """Whether only one process may use the device. Raises NvmlFailure."""
    with nvml_errors(f"compute mode of {uuid}"):
        mode = pynvml.nvmlDeviceGetComputeMode(pynvml.nvmlDeviceGetHandleByUUID(uuid))
    return bool(mode == pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
