"""What a job has reported about itself: charts, last values, and lines that were no points."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from agents.contract.job_metrics import SkipReason
from portal.job_metrics.models import MetricSeries
from portal.job_metrics.selectors import (
    lowest_ranks,
    points_load,
    points_of,
    skipped_counts,
)
from portal.jobs.models import Job
from portal.web.series_chart import SeriesChart, metric_text, series_chart

# Of more names only the last values are shown.
MAX_CHARTS = 24
MAX_ROWS = 100
# Of the help when nothing was reported yet.
EXAMPLE = """import json
print("tessera-metric", json.dumps({"step": step, "loss": loss}), flush=True)"""
SKIP_REASONS: dict[str, str | Promise] = {
    SkipReason.LINE_TOO_LONG: _("longer than 16 KiB"),
    SkipReason.NOT_UTF8: _("not UTF-8"),
    SkipReason.NOT_JSON: _("no JSON object"),
    SkipReason.NO_STEP: _("without a step that is a whole number"),
    SkipReason.NAME_REFUSED: _("with a name of other characters than letters, digits and _ . / -"),
    SkipReason.NO_VALUE: _("with a value that is no number"),
    SkipReason.NOT_FINITE: _("with a value that is not finite (NaN or infinite)"),
    SkipReason.TOO_MANY_NAMES: _("with one name too many"),
    SkipReason.FILE_TOO_LARGE: _("after the first 128 MiB of the file"),
    SkipReason.NOT_A_FILE: _("not read, because a link or a folder stands in place of the file"),
}


@dataclass(frozen=True, slots=True)
class ReportedValue:
    """One series in words."""

    name: str
    rank: int
    last: str
    step: int
    low: str
    high: str
    count: int


@dataclass(frozen=True, slots=True)
class ReportedChart:
    name: str
    rank: int
    chart: SeriesChart
    value: ReportedValue


@dataclass(frozen=True, slots=True)
class ReportedMetrics:
    charts: list[ReportedChart]
    values: list[ReportedValue]
    omitted_values: int
    has_ranks: bool
    """More than one replica has reported."""
    skipped: list[tuple[int, str | Promise]]
    example: str = EXAMPLE


def reported_metrics(job: Job, series: Sequence[MetricSeries]) -> ReportedMetrics:
    """`series`: those of the job. Two queries, one if nothing was reported."""
    drawn = lowest_ranks(series)[:MAX_CHARTS]
    points_load(drawn)
    skipped = sorted(skipped_counts(job).items(), key=lambda pair: -pair[1])
    return ReportedMetrics(
        [chart for row in drawn if (chart := _chart(row))],
        [_value(row) for row in series[:MAX_ROWS]],
        max(0, len(series) - MAX_ROWS),
        len({row.rank for row in series}) > 1,
        [(count, SKIP_REASONS.get(why, why)) for why, count in skipped],
    )


def _chart(row: MetricSeries) -> ReportedChart | None:
    chart = series_chart([(row.name, points_of(row))])
    return ReportedChart(row.name, row.rank, chart, _value(row)) if chart else None


def _value(row: MetricSeries) -> ReportedValue:
    return ReportedValue(
        *(row.name, row.rank, metric_text(row.last), row.last_step),
        *(metric_text(row.low), metric_text(row.high), row.count),
    )
