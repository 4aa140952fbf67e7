"""Sensor readings of a node as table rows: one for each GPU and each of its slices."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.contract.telemetry import GpuSample, MissingReason, SliceSample
from portal.telemetry.selectors import GpuReading
from portal.web.wording.labels import NBSP, duration

MIB_PER_GIB = 1024
# Agents send a sample every few seconds; an older one is marked as stale.
STALE_SECONDS = 60
UNMEASURED_REASONS: dict[MissingReason, str | Promise] = {
    MissingReason.MIG_MODE: gettext_lazy("not measurable in MIG mode"),
    MissingReason.ARCHITECTURE: gettext_lazy("not measurable on this GPU architecture"),
    MissingReason.NOT_SUPPORTED: gettext_lazy("not measurable on this board"),
    MissingReason.NO_PERMISSION: gettext_lazy("not measurable: the driver denies access"),
    MissingReason.FIRST_SAMPLE: gettext_lazy("not measured yet"),
    MissingReason.GPU_LOST: gettext_lazy("not measurable: the GPU is lost"),
    MissingReason.DRIVER_ERROR: gettext_lazy("not measurable now"),
}


@dataclass(frozen=True, slots=True)
class SensorValue:
    """A measured value with its unit, or why there is none."""

    text: str | Promise
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class SensorRow:
    """The readings of a GPU, or of a slice of the GPU in the row above."""

    name: str
    activity: SensorValue
    memory: SensorValue
    temperature: SensorValue
    power: SensorValue
    age: str = ""
    is_slice: bool = False
    # A job of a project that the reader is not in runs on it.
    is_hidden: bool = False
    # Too old to describe the present, such as the last sample of a lost GPU.
    is_stale: bool = False


NOT_APPLICABLE = SensorValue("", is_number=False)


def sensor_rows(readings: Iterable[GpuReading]) -> dict[str, list[SensorRow]]:
    """By node name, without nodes that have sent no sample."""
    now = timezone.now()
    rows: dict[str, list[SensorRow]] = {}
    for reading in readings:
        rows.setdefault(reading.node, []).extend(_rows(reading, now))
    return rows


def _rows(reading: GpuReading, now: datetime) -> list[SensorRow]:
    name, sample = f"GPU {reading.index}", reading.sample
    if sample is None:
        return [
            SensorRow(
                name, NOT_APPLICABLE, NOT_APPLICABLE, NOT_APPLICABLE, NOT_APPLICABLE, is_hidden=True
            )
        ]
    seconds = (now - reading.taken_at).total_seconds()
    age = _("%(time)s ago") % {"time": duration(seconds)}
    is_stale = seconds > STALE_SECONDS
    gpu = SensorRow(
        name=name,
        activity=_value(sample, "utilization_percent", f"{{}}{NBSP}%"),
        memory=_memory(sample),
        temperature=_value(sample, "temperature_c", f"{{}}{NBSP}°C"),
        power=_power(sample),
        age=age,
        is_stale=is_stale,
    )
    return [gpu, *(_slice(slice_sample, is_stale=is_stale) for slice_sample in sample.slices)]


def _slice(sample: SliceSample, *, is_stale: bool) -> SensorRow:
    """Temperature and power are measured for the whole GPU only."""
    return SensorRow(
        name=sample.profile or sample.uuid,
        activity=_value(sample, "active_percent", f"{{}}{NBSP}%"),
        memory=_memory(sample),
        temperature=NOT_APPLICABLE,
        power=NOT_APPLICABLE,
        is_slice=True,
        is_stale=is_stale,
    )


def _memory(sample: GpuSample | SliceSample) -> SensorValue:
    if sample.memory_used_mib is None or sample.memory_total_mib is None:
        return _absent(sample, "memory_used_mib")
    used, total = sample.memory_used_mib / MIB_PER_GIB, sample.memory_total_mib / MIB_PER_GIB
    return SensorValue(f"{used:.1f}{NBSP}/{NBSP}{total:.1f}{NBSP}GiB")


def _power(sample: GpuSample) -> SensorValue:
    if sample.power_mw is None:
        return _absent(sample, "power_mw")
    watts = f"{sample.power_mw / 1000:.0f}"
    if sample.power_limit_mw is not None:
        watts += f"{NBSP}/{NBSP}{sample.power_limit_mw / 1000:.0f}"
    return SensorValue(f"{watts}{NBSP}W")


def _value(sample: GpuSample | SliceSample, name: str, pattern: str) -> SensorValue:
    value = getattr(sample, name)
    return _absent(sample, name) if value is None else SensorValue(pattern.format(value))


def _absent(sample: GpuSample | SliceSample, name: str) -> SensorValue:
    return SensorValue(
        UNMEASURED_REASONS[sample.missing_reason(name) or MissingReason.DRIVER_ERROR],
        is_number=False,
    )
