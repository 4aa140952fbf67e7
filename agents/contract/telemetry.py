"""Sensor readings of a GPU and its slices, as integers with their unit in the name.

A number that cannot be measured is None, never 0, and `missing` gives the reason. None without an
entry in `missing` means that it was not read.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from agents.contract.codec import rule
from agents.contract.documents import GpuUuid
from agents.contract.node_limits import MAX_GPUS
from agents.contract.protocol import PROTOCOL

MAX_COUNT = 2**63 - 1
_COUNT = rule(minimum=0, maximum=MAX_COUNT)
_PERCENT = rule(minimum=0, maximum=100)
_AMOUNT = rule(minimum=0, maximum=2**31 - 1)
_CELSIUS = rule(minimum=-273, maximum=1_000)


class MissingReason(StrEnum):
    """Why a number cannot be measured. Pages and the help texts of the metrics explain it."""

    MIG_MODE = "mig_mode"
    """NVML does not measure it on a GPU in MIG mode."""
    ARCHITECTURE = "architecture"
    """GPUs of this generation have no counters for it (GPM begins with Hopper)."""
    NOT_SUPPORTED = "not_supported"
    """This board or driver does not report it."""
    NO_PERMISSION = "no_permission"
    """The driver reports it only to privileged users."""
    FIRST_SAMPLE = "first_look"
    """It is a mean between two samples, and this was the first."""
    GPU_LOST = "gpu_lost"
    """The GPU has fallen off the bus."""
    DRIVER_ERROR = "other"
    """The driver returned an unexpected error; it is in the agent's log."""


@dataclass(frozen=True, slots=True)
class MissingValue:
    """The name of a field that is None, and the reason."""

    name: str = field(metadata=rule(max_length=40, pattern=r"[a-z][a-z0-9_]*"))
    why: MissingReason = MissingReason.DRIVER_ERROR


@dataclass(frozen=True, slots=True)
class SliceSample:
    """A sample of a MIG instance."""

    uuid: str = field(metadata=rule(max_length=96))
    instance: int = field(metadata=rule(minimum=0, maximum=255))
    profile: str = field(default="", metadata=rule(max_length=32))
    memory_used_mib: int | None = field(default=None, metadata=_AMOUNT)
    memory_total_mib: int | None = field(default=None, metadata=_AMOUNT)
    # The part of the time in which anything ran on it (GPM).
    active_percent: int | None = field(default=None, metadata=_PERCENT)
    sm_active_percent: int | None = field(default=None, metadata=_PERCENT)
    missing: tuple[MissingValue, ...] = field(default=(), metadata=rule(max_length=16))

    def missing_reason(self, name: str) -> MissingReason | None:
        return next((m.why for m in self.missing if m.name == name), None)


@dataclass(frozen=True, slots=True)
class GpuSample:
    """A sample of a whole GPU."""

    uuid: GpuUuid
    # The part of the last second or less in which a kernel ran, as nvidia-smi prints it.
    utilization_percent: int | None = field(default=None, metadata=_PERCENT)
    memory_busy_percent: int | None = field(default=None, metadata=_PERCENT)
    memory_used_mib: int | None = field(default=None, metadata=_AMOUNT)
    memory_total_mib: int | None = field(default=None, metadata=_AMOUNT)
    temperature_c: int | None = field(default=None, metadata=_CELSIUS)
    memory_temperature_c: int | None = field(default=None, metadata=_CELSIUS)
    power_mw: int | None = field(default=None, metadata=_AMOUNT)
    power_limit_mw: int | None = field(default=None, metadata=_AMOUNT)
    # Millijoules since the driver was loaded.
    energy_mj: int | None = field(default=None, metadata=_COUNT)
    sm_clock_mhz: int | None = field(default=None, metadata=_AMOUNT)
    memory_clock_mhz: int | None = field(default=None, metadata=_AMOUNT)
    # Payload over all links.
    nvlink_sent_kib: int | None = field(default=None, metadata=_COUNT)
    nvlink_received_kib: int | None = field(default=None, metadata=_COUNT)
    # What limits the clocks: bits of nvmlClocksEventReason*.
    event_reasons: int | None = field(default=None, metadata=_COUNT)
    active_percent: int | None = field(default=None, metadata=_PERCENT)
    sm_active_percent: int | None = field(default=None, metadata=_PERCENT)
    slices: tuple[SliceSample, ...] = field(default=(), metadata=rule(max_length=64))
    missing: tuple[MissingValue, ...] = field(default=(), metadata=rule(max_length=32))

    def missing_reason(self, name: str) -> MissingReason | None:
        return next((m.why for m in self.missing if m.name == name), None)


@dataclass(frozen=True, slots=True)
class TelemetryRequest:
    """The latest sample of each GPU of the calling node."""

    epoch: int = field(metadata=rule(minimum=1))
    samples: tuple[GpuSample, ...] = field(metadata=rule(max_length=MAX_GPUS))
    # Time since the samples were taken.
    age_ms: int = field(default=0, metadata=rule(minimum=0, maximum=86_400_000))
    protocol: int = field(default=PROTOCOL, metadata=rule(minimum=1))


@dataclass(frozen=True, slots=True)
class TelemetryResponse:
    """When the portal takes the next samples."""

    # An earlier call is refused as `too_frequent`.
    next_seconds: int
