"""X."""

from dataclasses import dataclass
from enum import StrEnum


class EventKind(StrEnum):
    XID = "xid"
    ECC_UNCORRECTED = "ecc_uncorrected"
    ECC_CORRECTED = "ecc_corrected"


@dataclass(frozen=True, slots=True)
class DriverEvent:
    """One event as NVML gives it. `xid` is 0 where it is none; instances are None for the GPU."""

    gpu_uuid: str
    kind: EventKind
    xid: int
    gpu_instance: int | None
    compute_instance: int | None


@dataclass(frozen=True, slots=True)
class HealthReadings:
    """What NVML says now; None where the board or driver does not tell it, or not at present.

    `lost`: it fell off the bus. `unanswered`: why the driver said nothing of a GPU that it had.
    `uncorrected_errors` counts since the last reset. `recovery` may be newer than `Recovery`.
    `clock_reasons`: the bits of `cautions`.
    """

    is_lost: bool = False
    driver_error: str = ""
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    uncorrected_errors: int | None = None
    recovery: int | None = None
    clock_reasons: int | None = None
