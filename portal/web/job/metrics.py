"""A job's devices over time, as its Metrics tab shows them: a chart and a sentence each."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.contract.telemetry import Why
from portal.jobs.models import Allocation, AllocationSample, Attempt, Job
from portal.telemetry.job_samples import KEPT, SHARED, samples_of
from portal.web.cluster.sensors import MIB_PER_GIB, WHYS
from portal.web.job.chart import Chart, Point, chart
from portal.web.wording.labels import NBSP

# Devices that one page draws; a larger gang's others are counted.
MOST_DEVICES = 16
MEASURED_WHOLE_ONLY: str | Promise = gettext_lazy("not measurable for one MPS share of a GPU")


@dataclass(frozen=True, slots=True)
class Figure:
    """One number over time. `said`: its peak and its last value, or why there is none."""

    name: str
    chart: Chart | None
    said: str
    upper: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """A device of a replica, with what was measured of it."""

    name: str
    figures: list[Figure]


@dataclass(frozen=True, slots=True)
class Metrics:
    devices: list[Device]
    left_out: int
    kept_days: int = KEPT.days


def job_metrics(job: Job, attempt: Attempt | None) -> Metrics:
    """Of the last attempt. One query besides those of the page."""
    replicas = list(attempt.replicas.all()) if attempt else []
    held = [(r.rank, a) for r in replicas for a in r.allocations.all()]
    samples = samples_of(job) if held else {}
    devices = [
        Device(_name(rank, allocation), _figures(samples.get(allocation.pk, [])))
        for rank, allocation in held[:MOST_DEVICES]
        if allocation.pk in samples
    ]
    return Metrics(devices, max(0, len(held) - MOST_DEVICES))


def _name(rank: int, allocation: Allocation) -> str:
    device = allocation.slice
    piece = f", {device.profile}" if device.profile else ""
    return f"r{rank}: GPU {device.gpu.index}{piece}"


def _figures(rows: Sequence[AllocationSample]) -> list[Figure]:
    total = max((row.memory_total_mib or 0 for row in rows), default=0)
    watts = max((row.power_mw or 0 for row in rows), default=0)
    found = [
        _figure(_("Activity"), rows, "active_percent", 100, _percent),
        _figure(_("Memory"), rows, "memory_used_mib", total, _gib),
    ]
    # Of a slice nobody can measure these: they are left out, not shown as nothing.
    if any(row.temperature_c is not None for row in rows):
        found.append(_figure(_("Temperature"), rows, "temperature_c", 100, _degrees))
    if watts:
        found.append(_figure(_("Power"), rows, "power_mw", watts, _watts))
    return found


def _figure(
    name: str,
    rows: Sequence[AllocationSample],
    column: str,
    top: int,
    said: Callable[[int], str],
) -> Figure:
    points = [Point(int(row.minute.timestamp()) // 60, getattr(row, column)) for row in rows]
    drawn = chart(points, top=top, start=rows[0].minute, end=rows[-1].minute) if rows else None
    if drawn is None or drawn.peak is None:
        return Figure(name, None, str(_why(rows, column)))
    last = _("not measurable") if drawn.last is None else said(drawn.last)
    words = _("peak %(peak)s, last %(last)s") % {"peak": said(drawn.peak), "last": last}
    return Figure(name, drawn, words, said(top))


def _why(rows: Iterable[AllocationSample], column: str) -> str | Promise:
    text = next((row.why[column] for row in rows if column in row.why), str(Why.OTHER))
    if text == SHARED:
        return MEASURED_WHOLE_ONLY
    return WHYS[Why(text)] if text in set(Why) else WHYS[Why.OTHER]


def _percent(value: int) -> str:
    return f"{value}{NBSP}%"


def _gib(value: int) -> str:
    return f"{value / MIB_PER_GIB:.1f}{NBSP}GiB"


def _degrees(value: int) -> str:
    return f"{value}{NBSP}°C"


def _watts(value: int) -> str:
    return f"{value / 1000:.0f}{NBSP}W"
