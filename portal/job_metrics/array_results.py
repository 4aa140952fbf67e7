"""What the members of an array have reported, beside what each was given."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portal.arrays.models import JobArray
from portal.arrays.selectors import member_parameters, members_of
from portal.job_metrics.models import MetricSeries
from portal.jobs.models import Job

# Names of one array, by alphabet.
MAX_NAMES = 100


@dataclass(frozen=True, slots=True)
class MetricFigures:
    """Of a metric, as the lowest rank of a job that reports it has it."""

    last: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class MemberResult:
    """A member, what it was given, and by name what it has reported."""

    job: Job
    parameters: Mapping[str, str]
    metrics: Mapping[str, MetricFigures]


def parameter_names(array: JobArray) -> list[str]:
    """Of a sweep, in the order of the request."""
    return [word.partition("=")[0] for word in array.request.get("sweep", ())]


def metric_names(array: JobArray, limit: int = MAX_NAMES) -> list[str]:
    """What its members report. One query."""
    named = MetricSeries.objects.filter(job__array=array, job__array_index__isnull=False)
    return list(named.order_by("name").values_list("name", flat=True).distinct()[:limit])


def member_results(
    array: JobArray, jobs: Iterable[Job], names: Collection[str]
) -> list[MemberResult]:
    """Of these members, in their order. One query for the jobs, and one if there are names."""
    rows = list(jobs)
    given = member_parameters(array)
    figures: dict[int, dict[str, MetricFigures]] = defaultdict(dict)
    if names:
        series = MetricSeries.objects.filter(job__in=[row.pk for row in rows], name__in=names)
        # The lowest rank is the last one, and stays.
        columns = series.order_by("-rank").values_list("job_id", "name", "last", "low", "high")
        for job, name, *values in columns:
            figures[job][name] = MetricFigures(*values)
    return [
        MemberResult(row, given.get(row.array_index or 0, {}), figures.get(row.pk, {}))
        for row in rows
    ]


def results_table(array: JobArray) -> list[Sequence[Any]]:
    """All members as rows of a file, the names of the columns first. Three queries."""
    given, names = parameter_names(array), metric_names(array)
    parts = ("last", "min", "max")
    head = [
        "index",
        "job",
        "status",
        *given,
        *(f"{name}.{part}" for name in names for part in parts),
    ]
    return [
        head,
        *(_cells(row, given, names) for row in member_results(array, members_of(array), names)),
    ]


def _cells(row: MemberResult, given: Iterable[str], names: Iterable[str]) -> list[Any]:
    cells: list[Any] = [row.job.array_index, row.job.label, row.job.status]
    cells += [row.parameters.get(name, "") for name in given]
    for name in names:
        found = row.metrics.get(name)
        cells += [found.last, found.low, found.high] if found else ["", "", ""]
    return cells
