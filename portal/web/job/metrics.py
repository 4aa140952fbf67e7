"""The Metrics tab: charts of each device of a job, with a summary in words."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.contract.telemetry import MissingReason
from portal.allocations.models import Allocation
from portal.jobs.models import Attempt
from portal.telemetry.device_history import (
    DAY,
    HOUR,
    MINUTE,
    TEN_MINUTES,
    DevicePoint,
    device_history,
)
from portal.telemetry.job_samples import RETENTION, SHARED_REASON
from portal.telemetry.sample_hours import HOURS_RETENTION
from portal.web.cluster.sensors import MIB_PER_GIB, UNMEASURED_REASONS
from portal.web.job.chart import Chart, Point, chart
from portal.web.wording.labels import NBSP

# Devices drawn on one page; those of a larger gang are only counted.
MAX_DEVICES = 16
NOT_MEASURED_FOR_SHARES: str | Promise = gettext_lazy("not measurable for one MPS share of a GPU")
POINT_TIMES: dict[int, str | Promise] = {
    MINUTE: gettext_lazy("The highest value of each minute."),
    TEN_MINUTES: gettext_lazy("The highest value of each ten minutes."),
    HOUR: gettext_lazy("The highest value of each hour."),
    DAY: gettext_lazy("The highest value of each day."),
}


@dataclass(frozen=True, slots=True)
class MetricChart:
    """One metric of a device over time."""

    name: str
    chart: Chart | None
    summary: str
    """Its peak and its latest value, or why there is none."""
    top_label: str = ""
    """The value at the upper edge of the chart."""


@dataclass(frozen=True, slots=True)
class DeviceMetrics:
    """The metrics of one device of a replica."""

    name: str
    charts: list[MetricChart]


@dataclass(frozen=True, slots=True)
class JobMetrics:
    devices: list[DeviceMetrics]
    omitted_devices: int
    point_time: str | Promise
    """What a point is the highest value of."""
    kept_days: int = RETENTION.days
    kept_hours_days: int = HOURS_RETENTION.days


def job_metrics(attempt: Attempt | None) -> JobMetrics:
    """Of the job's last attempt. One to four queries."""
    replicas = list(attempt.replicas.all()) if attempt else []
    allocated = [(r.rank, a) for r in replicas for a in r.allocations.all()]
    drawn = allocated[:MAX_DEVICES]
    history = device_history(allocation for _, allocation in drawn)
    devices = [
        DeviceMetrics(_name(rank, allocation), _charts(history.points[allocation.pk]))
        for rank, allocation in drawn
        if allocation.pk in history.points
    ]
    omitted = max(0, len(allocated) - MAX_DEVICES)
    return JobMetrics(devices, omitted, POINT_TIMES[history.minutes_each])


def _name(rank: int, allocation: Allocation) -> str:
    device = allocation.own_slice
    profile = f", {device.profile}" if device.profile else ""
    return f"r{rank}: GPU {device.gpu.index}{profile}"


def _charts(rows: Sequence[DevicePoint]) -> list[MetricChart]:
    total = max((row.memory_total_mib or 0 for row in rows), default=0)
    watts = max((row.power_mw or 0 for row in rows), default=0)
    charts = [
        _chart(_("Activity"), rows, "active_percent", 100, _percent),
        _chart(_("Memory"), rows, "memory_used_mib", total, _gib),
    ]
    # Not measurable for a slice: left out rather than shown as zero.
    if any(row.temperature_c is not None for row in rows):
        charts.append(_chart(_("Temperature"), rows, "temperature_c", 100, _degrees))
    if watts:
        charts.append(_chart(_("Power"), rows, "power_mw", watts, _watts))
    return charts


def _chart(
    name: str,
    rows: Sequence[DevicePoint],
    column: str,
    top: int,
    label: Callable[[int], str],
) -> MetricChart:
    points = [Point(int(row.minute.timestamp()) // 60, getattr(row, column)) for row in rows]
    drawn = chart(points, top=top, start=rows[0].minute, end=rows[-1].minute) if rows else None
    if drawn is None or drawn.peak is None:
        return MetricChart(name, None, str(_unmeasured_reason(rows, column)))
    latest = _("not measurable") if drawn.latest is None else label(drawn.latest)
    summary = _("peak %(peak)s, last %(last)s") % {"peak": label(drawn.peak), "last": latest}
    return MetricChart(name, drawn, summary, label(top))


def _unmeasured_reason(rows: Iterable[DevicePoint], column: str) -> str | Promise:
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
