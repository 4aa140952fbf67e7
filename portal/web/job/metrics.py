"""A job's devices over time, as its Metrics tab shows them: a chart and a sentence each."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.contract.telemetry import MissingReason
from portal.jobs.models import Allocation, AllocationSample, Attempt, Job
from portal.telemetry.job_samples import RETENTION, SHARED_REASON, job_samples
from portal.web.cluster.sensors import MIB_PER_GIB, UNMEASURED_REASONS
from portal.web.job.chart import Chart, Point, chart
from portal.web.wording.labels import NBSP

# Devices that one page draws; a larger gang's others are counted.
MAX_DEVICES = 16
NOT_MEASURED_FOR_SHARES: str | Promise = gettext_lazy("not measurable for one MPS share of a GPU")


@dataclass(frozen=True, slots=True)
class MetricChart:
    """One number over time. `said`: its peak and its last value, or why there is none."""

    name: str
    chart: Chart | None
    summary: str
    top_label: str = ""


@dataclass(frozen=True, slots=True)
class DeviceMetrics:
    """A device of a replica, with what was measured of it."""

    name: str
    charts: list[MetricChart]


@dataclass(frozen=True, slots=True)
class JobMetrics:
    devices: list[DeviceMetrics]
    omitted_devices: int
    kept_days: int = RETENTION.days


def job_metrics(job: Job, attempt: Attempt | None) -> JobMetrics:
    """Of the last attempt. One query besides those of the page."""
    replicas = list(attempt.replicas.all()) if attempt else []
    held = [(r.rank, a) for r in replicas for a in r.allocations.all()]
    samples = job_samples(job) if held else {}
    devices = [
        DeviceMetrics(_name(rank, allocation), _figures(samples.get(allocation.pk, [])))
        for rank, allocation in held[:MAX_DEVICES]
        if allocation.pk in samples
    ]
    return JobMetrics(devices, max(0, len(held) - MAX_DEVICES))


def _name(rank: int, allocation: Allocation) -> str:
    device = allocation.slice
    piece = f", {device.profile}" if device.profile else ""
    return f"r{rank}: GPU {device.gpu.index}{piece}"


def _figures(rows: Sequence[AllocationSample]) -> list[MetricChart]:
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
) -> MetricChart:
    points = [Point(int(row.minute.timestamp()) // 60, getattr(row, column)) for row in rows]
    drawn = chart(points, top=top, start=rows[0].minute, end=rows[-1].minute) if rows else None
    if drawn is None or drawn.peak is None:
        return MetricChart(name, None, str(_why(rows, column)))
    last = _("not measurable") if drawn.latest is None else said(drawn.latest)
    words = _("peak %(peak)s, last %(last)s") % {"peak": said(drawn.peak), "last": last}
    return MetricChart(name, drawn, words, said(top))


def _why(rows: Iterable[AllocationSample], column: str) -> str | Promise:
    text = next(
        (row.why[column] for row in rows if column in row.why), str(MissingReason.DRIVER_ERROR)
    )
    if text == SHARED_REASON:
        return NOT_MEASURED_FOR_SHARES
    return (
        UNMEASURED_REASONS[MissingReason(text)]
        if text in set(MissingReason)
        else UNMEASURED_REASONS[MissingReason.DRIVER_ERROR]
    )


def _percent(value: int) -> str:
    return f"{value}{NBSP}%"


def _gib(value: int) -> str:
    return f"{value / MIB_PER_GIB:.1f}{NBSP}GiB"


def _degrees(value: int) -> str:
    return f"{value}{NBSP}°C"


def _watts(value: int) -> str:
    return f"{value / 1000:.0f}{NBSP}W"
