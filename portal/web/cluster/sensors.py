"""What sensors say of a node's GPUs, in words: a row each, and one for each of its slices."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.contract.telemetry import GpuSample, SliceSample, Why
from portal.telemetry.selectors import Reading
from portal.web.wording.labels import NBSP, duration

MIB_PER_GIB = 1024
# Agents send every few seconds; after this many there is something in the way.
STALE_SECONDS = 60
WHYS: dict[Why, str | Promise] = {
    Why.MIG_MODE: gettext_lazy("not measurable in MIG mode"),
    Why.ARCHITECTURE: gettext_lazy("not measurable on this kind of GPU"),
    Why.NOT_SUPPORTED: gettext_lazy("not measurable on this board"),
    Why.NO_PERMISSION: gettext_lazy("not measurable: the driver does not allow it"),
    Why.FIRST_LOOK: gettext_lazy("not measured yet"),
    Why.GPU_LOST: gettext_lazy("not measurable: the GPU is lost"),
    Why.OTHER: gettext_lazy("not measurable now"),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A number with its unit, or why there is none."""

    words: str | Promise
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class SensorRow:
    """`name` is a GPU or a slice of the one above. `hidden`: other people's work is on it.
    `is_stale`: so old that it says nothing of now, as of a GPU that was lost."""

    name: str
    activity: Cell
    memory: Cell
    temperature: Cell
    power: Cell
    age: str = ""
    is_slice: bool = False
    hidden: bool = False
    is_stale: bool = False


NOTHING = Cell("", is_number=False)


def sensor_rows(readings: Iterable[Reading]) -> dict[str, list[SensorRow]]:
    """By node. Nodes without a sample are left out."""
    now = timezone.now()
    found: dict[str, list[SensorRow]] = {}
    for reading in readings:
        found.setdefault(reading.node, []).extend(_rows(reading, now))
    return found


def _rows(reading: Reading, now: datetime) -> list[SensorRow]:
    name, sample = f"GPU {reading.index}", reading.sample
    if sample is None:
        return [SensorRow(name, NOTHING, NOTHING, NOTHING, NOTHING, hidden=True)]
    seconds = (now - reading.taken_at).total_seconds()
    age = _("%(time)s ago") % {"time": duration(seconds)}
    is_stale = seconds > STALE_SECONDS
    whole = SensorRow(
        name=name,
        activity=_cell(sample, "utilization_percent", f"{{}}{NBSP}%"),
        memory=_memory(sample),
        temperature=_cell(sample, "temperature_c", f"{{}}{NBSP}°C"),
        power=_power(sample),
        age=age,
        is_stale=is_stale,
    )
    return [whole, *(_slice(piece, is_stale=is_stale) for piece in sample.slices)]


def _slice(piece: SliceSample, *, is_stale: bool) -> SensorRow:
    """Temperature and power are the whole GPU's only."""
    activity = _cell(piece, "active_percent", f"{{}}{NBSP}%")
    return SensorRow(
        name=piece.profile or piece.uuid,
        activity=activity,
        memory=_memory(piece),
        temperature=NOTHING,
        power=NOTHING,
        is_slice=True,
        is_stale=is_stale,
    )


def _memory(sample: GpuSample | SliceSample) -> Cell:
    if sample.memory_used_mib is None or sample.memory_total_mib is None:
        return _absent(sample, "memory_used_mib")
    used, total = sample.memory_used_mib / MIB_PER_GIB, sample.memory_total_mib / MIB_PER_GIB
    return Cell(f"{used:.1f}{NBSP}/{NBSP}{total:.1f}{NBSP}GiB")


def _power(sample: GpuSample) -> Cell:
    if sample.power_mw is None:
        return _absent(sample, "power_mw")
    watts = f"{sample.power_mw / 1000:.0f}"
    if sample.power_limit_mw is not None:
        watts += f"{NBSP}/{NBSP}{sample.power_limit_mw / 1000:.0f}"
    return Cell(f"{watts}{NBSP}W")


def _cell(sample: GpuSample | SliceSample, name: str, words: str) -> Cell:
    value = getattr(sample, name)
    return _absent(sample, name) if value is None else Cell(words.format(value))


def _absent(sample: GpuSample | SliceSample, name: str) -> Cell:
    return Cell(WHYS[sample.why(name) or Why.OTHER], is_number=False)
