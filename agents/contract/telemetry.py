"""What sensors say of a GPU and its slices, as integers with their unit in the name.

A number that is not measurable is None and stands in `missing` with why; it is never 0 instead.
`None` without an entry in `missing`: it was not asked for.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from agents.contract.codec import rule
from agents.contract.documents import PROTOCOL, GpuUuid

MAX_COUNT = 2**63 - 1
_COUNT = rule(minimum=0, maximum=MAX_COUNT)
_PERCENT = rule(minimum=0, maximum=100)
_AMOUNT = rule(minimum=0, maximum=2**31 - 1)
_CELSIUS = rule(minimum=-273, maximum=1_000)


class MissingReason(StrEnum):
    """Why a number is not measurable. Pages and the metrics' help say it in words."""

    MIG_MODE = "mig_mode"
    """NVML does not measure it on a GPU in MIG mode."""
    ARCHITECTURE = "architecture"
    """GPUs of this generation have no counters for it (GPM begins with Hopper)."""
    NOT_SUPPORTED = "not_supported"
    """This board or driver does not tell it."""
    NO_PERMISSION = "no_permission"
    """The driver tells it only to privileged users."""
    FIRST_SAMPLE = "first_look"
    """It is a mean between two looks, and this was the first."""
    GPU_LOST = "gpu_lost"
    """The GPU has fallen off the bus."""
    DRIVER_ERROR = "other"
    """The driver refused with an error that it should not give here; the agent's log has it."""


@dataclass(frozen=True, slots=True)
class MissingValue:
    """A number that is None, by the name of its field."""

    name: str = field(metadata=rule(max_length=40, pattern=r"[a-z][a-z0-9_]*"))
    why: MissingReason = MissingReason.DRIVER_ERROR


@dataclass(frozen=True, slots=True)
class SliceSample:
    """A MIG instance. `active_percent`: the part of the time in which anything ran on it (GPM)."""

    uuid: str = field(metadata=rule(max_length=96))
    instance: int = field(metadata=rule(minimum=0, maximum=255))
    profile: str = field(default="", metadata=rule(max_length=32))
    memory_used_mib: int | None = field(default=None, metadata=_AMOUNT)
    memory_total_mib: int | None = field(default=None, metadata=_AMOUNT)
    active_percent: int | None = field(default=None, metadata=_PERCENT)
    sm_active_percent: int | None = field(default=None, metadata=_PERCENT)
    missing: tuple[MissingValue, ...] = field(default=(), metadata=rule(max_length=16))

    def missing_reason(self, name: str) -> MissingReason | None:
        return next((m.why for m in self.missing if m.name == name), None)


@dataclass(frozen=True, slots=True)
class GpuSample:
    """A whole GPU. Power in milliwatts, energy in millijoules since the driver was loaded.

    `utilization_percent`: the part of the last second or less in which a kernel ran, as nvidia-smi
    prints it. NVLink counts are payload over all links, in KiB. `event_reasons`: why the clocks are
    as they are, bits of nvmlClocksEventReason*.
    """

    uuid: GpuUuid
    utilization_percent: int | None = field(default=None, metadata=_PERCENT)
    memory_busy_percent: int | None = field(default=None, metadata=_PERCENT)
    memory_used_mib: int | None = field(default=None, metadata=_AMOUNT)
    memory_total_mib: int | None = field(default=None, metadata=_AMOUNT)
    temperature_c: int | None = field(default=None, metadata=_CELSIUS)
    memory_temperature_c: int | None = field(default=None, metadata=_CELSIUS)
    power_mw: int | None = field(default=None, metadata=_AMOUNT)
    power_limit_mw: int | None = field(default=None, metadata=_AMOUNT)
    energy_mj: int | None = field(default=None, metadata=_COUNT)
    sm_clock_mhz: int | None = field(default=None, metadata=_AMOUNT)
    memory_clock_mhz: int | None = field(default=None, metadata=_AMOUNT)
    nvlink_sent_kib: int | None = field(default=None, metadata=_COUNT)
    nvlink_received_kib: int | None = field(default=None, metadata=_COUNT)
    event_reasons: int | None = field(default=None, metadata=_COUNT)
    active_percent: int | None = field(default=None, metadata=_PERCENT)
    sm_active_percent: int | None = field(default=None, metadata=_PERCENT)
    slices: tuple[SliceSample, ...] = field(default=(), metadata=rule(max_length=64))
    missing: tuple[MissingValue, ...] = field(default=(), metadata=rule(max_length=32))

    def missing_reason(self, name: str) -> MissingReason | None:
        return next((m.why for m in self.missing if m.name == name), None)


@dataclass(frozen=True, slots=True)
class TelemetryRequest:
    """The latest sample of each GPU of the calling node; `age_ms` since they were taken."""

    epoch: int = field(metadata=rule(minimum=1))
    samples: tuple[GpuSample, ...] = field(metadata=rule(max_length=64))
    age_ms: int = field(default=0, metadata=rule(minimum=0, maximum=86_400_000))
    protocol: int = field(default=PROTOCOL, metadata=rule(minimum=1))


@dataclass(frozen=True, slots=True)
class TelemetryResponse:
    """The next call is refused as `too_frequent` before these seconds are over."""

    next_seconds: int
