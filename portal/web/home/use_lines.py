"""How much of its devices a job used in the last hour: two small lines and two figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from portal.telemetry.job_samples import JobMinute
from portal.web.cluster.sensors import MIB_PER_GIB
from portal.web.job.chart import Chart, Point, chart
from portal.web.wording.labels import NBSP

SHOWN = timedelta(hours=1)
# A job without a sample is waited for this long; then it counts as not measured.
FIRST_SAMPLE_WITHIN = timedelta(minutes=3)


@dataclass(frozen=True, slots=True)
class UseLine:
    """One measure of a job."""

    label: str
    """For screen readers."""
    chart: Chart | None
    """None if nothing was measured."""
    text: str
    """The latest value, or that there is none: never 0 for what was not measured."""


def use_lines(minutes: Sequence[JobMinute], started_at: datetime, now: datetime) -> list[UseLine]:
    """Activity and memory. `minutes`: those of the job, the oldest first."""
    if not minutes and now - started_at < FIRST_SAMPLE_WITHIN:
        missing = _("waiting for a sample")
    else:
        missing = _("not measured")
    total = max((minute.memory_total_mib or 0 for minute in minutes), default=0)
    active = [(minute.minute, minute.active_percent) for minute in minutes]
    memory = [(minute.minute, minute.memory_used_mib) for minute in minutes]
    latest = _latest_complete(minutes)
    active_text, memory_text = missing, missing
    if latest and latest.active_percent is not None:
        active_text = _("%(percent)s active") % {"percent": f"{latest.active_percent}{NBSP}%"}
    if latest and latest.memory_used_mib is not None and latest.memory_total_mib:
        words = {"used": _gib(latest.memory_used_mib), "all": _gib(latest.memory_total_mib)}
        memory_text = _("%(used)s of %(all)s GiB") % words
    return [
        UseLine(_("Activity of its GPUs in the last hour"), _line(active, 100), active_text),
        UseLine(_("GPU memory used in the last hour"), _line(memory, total), memory_text),
    ]


def _latest_complete(minutes: Sequence[JobMinute]) -> JobMinute | None:
    """The last minute in which as many devices reported as in the one before: of the present
    minute, only some may have done so."""
    last = minutes[-2:]
    return max(reversed(last), key=lambda minute: minute.devices, default=None)


def _line(values: Sequence[tuple[datetime, int | None]], top: int) -> Chart | None:
    points = [Point(int(minute.timestamp()) // 60, value) for minute, value in values]
    if not points or not top:
        return None
    drawn = chart(points, top=top, start=values[0][0], end=values[-1][0])
    return drawn if drawn.count else None


def _gib(mib: int) -> str:
    """Whole GiB, and tenths below ten."""
    gib = mib / MIB_PER_GIB
    return f"{gib:,.0f}" if gib >= 10 else f"{gib:.1f}"
