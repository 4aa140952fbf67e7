"""The queue in the planner's order, as the last pass stored it, and the jobs that end next."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Min, QuerySet, Value
from django.db.models.functions import Coalesce

from portal.accounts.models import User
from portal.jobs.models import Job, Replica
from portal.jobs.paging import page_of
from portal.jobs.querysets import values_of
from scheduler.core.model.states import JOB_ALLOCATED, JOB_WAITING, JobStatus

WAITING, ALLOCATED = values_of(JOB_WAITING), values_of(JOB_ALLOCATED)
# Behind every position: jobs that no pass has seen yet, and jobs that await approval.
LAST = 2**31 - 1
SORTING = ("place", "id")


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """How many jobs are in which state."""

    waiting: int
    queued: int
    """Those of the waiting jobs that a pass tries."""
    allocated: int
    mine: int
    """The user's own waiting jobs, and the first of their positions."""
    first_position: int | None


@dataclass(frozen=True, slots=True)
class EndingJob:
    """A running job, and the nodes that it runs on."""

    job: Job
    nodes: tuple[str, ...]

    @property
    def ends_at(self) -> datetime | None:
        return self.job.deadline_at


def queue_in_order() -> QuerySet[Job]:
    """All waiting jobs, in the order of the last pass. The caller hides names that the reader may
    not see."""
    rows = Job.objects.waiting()
    return rows.annotate(place=Coalesce("position", Value(LAST))).order_by(*SORTING)


def queue_counts(user: User) -> QueueCounts:
    """Two queries: by status, and the user's own."""
    rows = Job.objects.filter(status__in=[*WAITING, *ALLOCATED]).order_by()
    # Of rows and not of ids: an index then answers alone.
    by_status = dict(rows.values_list("status").annotate(count=Count("*")))
    mine = Job.objects.waiting().filter(owner=user)
    own = mine.aggregate(count=Count("id"), first=Min("position"))
    return QueueCounts(
        waiting=sum(by_status.get(status, 0) for status in WAITING),
        queued=by_status.get(JobStatus.QUEUED, 0),
        allocated=sum(by_status.get(status, 0) for status in ALLOCATED),
        mine=own["count"],
        first_position=own["first"],
    )


def next_jobs_to_end(count: int) -> list[EndingJob]:
    """The running jobs that reach their time limit first. Three queries."""
    rows = Job.objects.filter(status=JobStatus.RUNNING, deadline_at__isnull=False)
    jobs = page_of(rows, ("deadline_at", "id"), size=count).rows
    nodes_of_job = (
        Replica.objects.filter(attempt__job__in=[job.pk for job in jobs], finished_at=None)
        .filter(node__isnull=False)
        .order_by("node__name")
        .values_list("attempt__job_id", "node__name")
        .distinct()
    )
    nodes: dict[int, list[str]] = {}
    for job, node in nodes_of_job:
        nodes.setdefault(job, []).append(node)
    return [EndingJob(job, tuple(nodes.get(job.pk, ()))) for job in jobs]
