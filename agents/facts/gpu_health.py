"""What the driver reports of a GPU's health."""

from dataclasses import dataclass
from enum import StrEnum


class EventKind(StrEnum):
    XID = "xid"
    ECC_UNCORRECTED = "ecc_uncorrected"
    ECC_CORRECTED = "ecc_corrected"


@dataclass(frozen=True, slots=True)
class DriverEvent:
    """One event as NVML delivers it."""

    gpu_uuid: str
    kind: EventKind
    # 0 for an event of another kind.
    xid: int
    # None for an event of the whole GPU.
    gpu_instance: int | None
    compute_instance: int | None


@dataclass(frozen=True, slots=True)
class HealthReadings:
    """One reading of a GPU. None: the board or driver does not report it, or not at present."""

    # The GPU has fallen off the bus.
    is_lost: bool = False
    # Why the driver did not answer for a GPU that it had reported before; empty if it did.
    driver_error: str = ""
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    # Since the last reset.
    uncorrected_errors: int | None = None
    # NVML_GPU_RECOVERY_ACTION_*; a new driver may report actions that we do not know.
    recovery: int | None = None
    # Bits of nvmlClocksEventReason*.
    clock_reasons: int | None = None
