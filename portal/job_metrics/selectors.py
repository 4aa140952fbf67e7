"""Read what jobs have reported. The caller has checked that the reader may see them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, Max

from portal.accounts.models import User
from portal.job_metrics.models import MetricSeries, MetricsPosition
from portal.jobs.models import Job
from portal.jobs.selectors import jobs_visible_to


def series_of(
    jobs: Iterable[Job], *, name: str = "", rank: int | None = None
) -> list[MetricSeries]:
    """Their series without points, by job, name and rank. One query."""
    rows = MetricSeries.objects.filter(job__in=[job.pk for job in jobs]).defer("points")
    if name:
        rows = rows.filter(name=name)
    if rank is not None:
        rows = rows.filter(rank=rank)
    return list(rows.order_by("job_id", "name", "rank"))


def lowest_ranks(series: Iterable[MetricSeries]) -> list[MetricSeries]:
    """Of each job and name, the series of the lowest rank, in the same order."""
    found: dict[tuple[int, str], MetricSeries] = {}
    for row in series:
        before = found.get((row.job_id, row.name))
        if before is None or row.rank < before.rank:
            found[row.job_id, row.name] = row
    return list(found.values())


def points_load(series: Sequence[MetricSeries]) -> None:
    """Read the points of these series. One query, none if there are no series."""
    if not series:
        return
    rows = MetricSeries.objects.filter(pk__in=[row.pk for row in series])
    points = dict(rows.values_list("pk", "points"))
    for row in series:
        row.points = points.get(row.pk, [])


def points_of(row: MetricSeries) -> list[tuple[int, float]]:
    """Its points by step, and always its last one."""
    points = [(int(step), float(value)) for step, value in row.points]
    if not points or points[-1][0] < row.last_step:
        points.append((row.last_step, row.last))
    return points


@dataclass(frozen=True, slots=True)
class LastSteps:
    """How far the ranks of an attempt have come, by the metric that most of them report."""

    name: str = ""
    steps: Mapping[int, int] = field(default_factory=dict)
    """By rank: its last step."""
    counts: Mapping[int, int] = field(default_factory=dict)
    """By rank: how many points it has reported."""


def last_steps(job: Job, attempt: int) -> LastSteps:
    """Of the ranks that have reported in this attempt, given by its number. Steps of different
    metrics do not compare, as one may be reported ten times as often. Two queries, one if none
    was reported."""
    rows = MetricSeries.objects.filter(job=job, attempt=attempt)
    names = rows.values("name").annotate(ranks=Count("rank"), most=Max("count"))
    name = names.order_by("-ranks", "-most", "name").values_list("name", flat=True).first()
    if name is None:
        return LastSteps()
    found = list(rows.filter(name=name).values_list("rank", "last_step", "count"))
    steps = {rank: step for rank, step, _ in found}
    return LastSteps(name, steps, {rank: count for rank, _, count in found})


def skipped_counts(job: Job) -> dict[str, int]:
    """How many lines of its files were no points, by reason. One query."""
    rows = MetricsPosition.objects.filter(replica__attempt__job=job).exclude(skipped={})
    counts = Counter[str]()
    for skipped in rows.values_list("skipped", flat=True):
        counts.update(skipped)
    return dict(counts)


def reported_at(job: Job) -> datetime | None:
    """When it last reported anything."""
    rows = MetricsPosition.objects.filter(replica__attempt__job=job)
    newest: datetime | None = rows.aggregate(at=Max("updated_at"))["at"]
    return newest


def jobs_that_report(
    user: User, names: Iterable[str], *, besides: Iterable[Job], limit: int
) -> list[Job]:
    """The newest jobs that the user may see and that report one of these names, or any. One
    query."""
    reporting = MetricSeries.objects.all()
    if chosen := list(names):
        reporting = reporting.filter(name__in=chosen)
    rows = jobs_visible_to(user).exclude(pk__in=[job.pk for job in besides])
    return list(rows.filter(pk__in=reporting.values("job_id"))[:limit])
