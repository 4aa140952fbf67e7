"""How many jobs failed by which cause."""

from dataclasses import dataclass

from django.db.models import Count

from portal.jobs.models import Job
from portal.jobs.querysets import JobQuerySet

# Of more failed jobs, these many are counted: the last to end.
MAX_COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class CauseCount:
    cause: str
    count: int


def failures_by_cause(jobs: JobQuerySet[Job]) -> list[CauseCount]:
    """The most frequent cause first; jobs that are not diagnosed yet are left out. One query."""
    failed = jobs.failed().exclude(failure_cause="").order_by("-finished_at")
    counted = Job.objects.filter(pk__in=failed.values("pk")[:MAX_COUNTED])
    rows = counted.order_by().values_list("failure_cause").annotate(n=Count("pk"))
    return sorted(
        (CauseCount(cause, count) for cause, count in rows), key=lambda c: (-c.count, c.cause)
    )
