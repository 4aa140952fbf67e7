"""The NVML return codes that the simulation uses, by the names and numbers of nvml.h."""

from enum import IntEnum


class Code(IntEnum):
    SUCCESS = 0
    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    INSUFFICIENT_SIZE = 7
    TIMEOUT = 10
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    IN_USE = 19
    INSUFFICIENT_RESOURCES = 23
    ARGUMENT_VERSION_MISMATCH = 25
    INVALID_STATE = 29
    UNKNOWN = 999


MESSAGES: dict[int, str] = {
    Code.SUCCESS: "Success",
    Code.UNINITIALIZED: "Uninitialized",
    Code.INVALID_ARGUMENT: "Invalid Argument",
    Code.NOT_SUPPORTED: "Not Supported",
    Code.NO_PERMISSION: "Insufficient Permissions",
    Code.NOT_FOUND: "Not Found",
    Code.INSUFFICIENT_SIZE: "Insufficient Size",
    Code.TIMEOUT: "Timeout",
    Code.GPU_IS_LOST: "GPU is lost",
    Code.RESET_REQUIRED: "GPU requires reset",
    Code.IN_USE: "In use by another client",
    Code.INSUFFICIENT_RESOURCES: "Insufficient Resources",
    Code.ARGUMENT_VERSION_MISMATCH: "Argument version mismatch",
    Code.INVALID_STATE: "Invalid State",
    Code.UNKNOWN: "Unknown Error",
}


class DriverError(Exception):
    """A call that the driver refuses; the adapter turns it into the return code."""

    def __init__(self, code: Code) -> None:
        super().__init__(MESSAGES[code])
        self.code = code
