"""NVML's errors as one exception of our own, and the gate that every call passes."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import pynvml

from agents.nvml.gate import CALLS


class NvmlCode(StrEnum):
    """The NVML errors that the agent distinguishes."""

    NOT_SUPPORTED = "not_supported"
    NO_PERMISSION = "no_permission"
    NO_SUCH_DEVICE = "not_found"
    INVALID_ARGUMENT = "invalid_argument"
    IN_USE = "in_use"
    INSUFFICIENT_RESOURCES = "insufficient_resources"
    RESET_REQUIRED = "reset_required"
    GPU_LOST = "gpu_lost"
    NO_LIBRARY = "no_library"
    UNKNOWN = "other"


_CODES = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: NvmlCode.NOT_SUPPORTED,
    pynvml.NVML_ERROR_NO_PERMISSION: NvmlCode.NO_PERMISSION,
    pynvml.NVML_ERROR_NOT_FOUND: NvmlCode.NO_SUCH_DEVICE,
    pynvml.NVML_ERROR_INVALID_ARGUMENT: NvmlCode.INVALID_ARGUMENT,
    pynvml.NVML_ERROR_IN_USE: NvmlCode.IN_USE,
    pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES: NvmlCode.INSUFFICIENT_RESOURCES,
    pynvml.NVML_ERROR_RESET_REQUIRED: NvmlCode.RESET_REQUIRED,
    pynvml.NVML_ERROR_GPU_IS_LOST: NvmlCode.GPU_LOST,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: NvmlCode.NO_LIBRARY,
}


@dataclass
class NvmlFailure(Exception):
    """A call that NVML refused: our code, and a sentence with what was tried and NVML's reason."""

    code: NvmlCode
    sentence: str

    def __str__(self) -> str:
        return self.sentence

    @property
    def reason(self) -> str:
        """NVML's own words, without what was tried."""
        return str(self.__cause__ or self)


def code_of(status: int) -> NvmlCode:
    """Our code for an `NVML_ERROR_*` number."""
    return _CODES.get(status, NvmlCode.UNKNOWN)


@contextlib.contextmanager
def nvml_errors(action: str) -> Iterator[None]:
    """Turn an NVML error inside the block into NvmlFailure; `action` begins its sentence.

    Waits while the library is closed for a reset of a GPU."""
    try:
        with CALLS.entered():
            yield
    except pynvml.NVMLError as error:
        raise NvmlFailure(code_of(error.value), f"{action}: {error}") from error
