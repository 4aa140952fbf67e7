"""The template context of the comparison: charts by metric, a table of last values, more jobs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from portal.accounts.models import User
from portal.job_metrics.models import MetricSeries
from portal.job_metrics.selectors import (
    jobs_that_report,
    lowest_ranks,
    points_load,
    points_of,
    series_of,
)
from portal.jobs.bulk_cancel import jobs_by_label
from portal.jobs.models import Job
from portal.web.series_chart import MAX_LINES, SeriesChart, metric_text, series_chart

# Metrics with a chart and a column; those that most of the jobs report come first.
MAX_METRICS = 12
# Other jobs that are offered.
MAX_OFFERS = 12


@dataclass(frozen=True, slots=True)
class ComparedJob:
    job: Job
    number: int
    """From 1 on; the style of its lines."""
    values: list[str]
    """Of the metrics, in their order; empty for one that it does not report."""


@dataclass(frozen=True, slots=True)
class ComparedMetric:
    name: str
    chart: SeriesChart


def chosen_jobs(user: User, refs: Iterable[str]) -> tuple[list[Job], int]:
    """The jobs that the reader may see, each once, and how many names are none of them."""
    labels = list(dict.fromkeys(ref.strip() for ref in refs if ref.strip()))[: 4 * MAX_LINES]
    named = jobs_by_label(user, labels)
    jobs = {row.pk: row for row in named.values() if row is not None}
    return list(jobs.values()), sum(row is None for row in named.values())


def comparison_context(user: User, refs: Iterable[str]) -> dict[str, Any]:
    """Five queries at most."""
    found, unknown_count = chosen_jobs(user, refs)
    jobs = found[:MAX_LINES]
    series = lowest_ranks(series_of(jobs))
    names = _names(series)
    drawn = [row for row in series if row.name in names[:MAX_METRICS]]
    points_load(drawn)
    by_job = {(row.job_id, row.name): row for row in drawn}
    compared = [
        ComparedJob(job, number, [_last(by_job.get((job.pk, n))) for n in names[:MAX_METRICS]])
        for number, job in enumerate(jobs, start=1)
    ]
    return {
        "jobs": compared,
        "names": names[:MAX_METRICS],
        "metrics": _metrics(jobs, names[:MAX_METRICS], by_job),
        "omitted_names": max(0, len(names) - MAX_METRICS),
        "omitted_jobs": len(found) - len(jobs),
        "unknown_count": unknown_count,
        "max_jobs": MAX_LINES,
        "offers": jobs_that_report(user, names, besides=jobs, limit=MAX_OFFERS),
        "query": urlencode([("job", job.label) for job in jobs]),
    }


def _names(series: Sequence[MetricSeries]) -> list[str]:
    counts: dict[str, int] = {}
    for row in series:
        counts[row.name] = counts.get(row.name, 0) + 1
    return sorted(counts, key=lambda name: (-counts[name], name))


def _metrics(
    jobs: Sequence[Job], names: Sequence[str], by_job: dict[tuple[int, str], MetricSeries]
) -> list[ComparedMetric]:
    """A job keeps its style in each chart, also where others report nothing."""
    found = []
    for name in names:
        rows = [(job.label, by_job.get((job.pk, name))) for job in jobs]
        chart = series_chart([(label, points_of(row) if row else []) for label, row in rows])
        if chart is not None:
            found.append(ComparedMetric(name, chart))
    return found


def _last(row: MetricSeries | None) -> str:
    return metric_text(row.last) if row else ""
