"""Reads the whole queue in the planner's order, as the last pass stored it, and what frees next."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Min, QuerySet, Value
from django.db.models.functions import Coalesce

from portal.accounts.models import User
from portal.jobs.models import Job, Replica
from portal.jobs.paging import page_of
from scheduler.core.model.states import JOB_HOLDING, JOB_WAITING, JobStatus

WAITING = sorted(str(status) for status in JOB_WAITING)
HOLDING = sorted(str(status) for status in JOB_HOLDING)
# Behind every position: jobs that no pass has looked at, and those that wait for an approval.
LAST = 2**31 - 1
SORTING = ("place", "id")


@dataclass(frozen=True, slots=True)
class Heads:
    """How many wait and hold devices; `queued`: those of them that a pass tries. `mine`: waiting
    ones of the user, with the first of their positions."""

    waiting: int
    queued: int
    holding: int
    mine: int
    first: int | None


@dataclass(frozen=True, slots=True)
class Leaving:
    """A job that holds devices, and where."""

    job: Job
    nodes: tuple[str, ...]

    @property
    def until(self) -> datetime | None:
        return self.job.deadline_at


def waiting_jobs() -> QuerySet[Job]:
    """Everybody's waiting jobs, in the order of the last pass. Whose names may be read is up to
    the caller."""
    rows = Job.objects.filter(status__in=WAITING)
    return rows.annotate(place=Coalesce("position", Value(LAST))).order_by(*SORTING)


def heads(user: User) -> Heads:
    """Two queries: how many of each status, and how the user's own stand."""
    rows = Job.objects.filter(status__in=[*WAITING, *HOLDING]).order_by()
    by_status = dict(rows.values_list("status").annotate(count=Count("id")))
    mine = Job.objects.filter(owner=user, status__in=WAITING)
    own = mine.aggregate(count=Count("id"), first=Min("position"))
    return Heads(
        waiting=sum(by_status.get(status, 0) for status in WAITING),
        queued=by_status.get(JobStatus.QUEUED, 0),
        holding=sum(by_status.get(status, 0) for status in HOLDING),
        mine=own["count"],
        first=own["first"],
    )


def next_to_leave(count: int) -> list[Leaving]:
    """The running jobs whose limit is over first. Three queries."""
    rows = Job.objects.filter(status=JobStatus.RUNNING, deadline_at__isnull=False)
    jobs = page_of(rows, ("deadline_at", "id"), size=count).rows
    there = (
        Replica.objects.filter(attempt__job__in=[job.pk for job in jobs], finished_at=None)
        .order_by("node__name")
        .values_list("attempt__job_id", "node__name")
        .distinct()
    )
    nodes: dict[int, list[str]] = {}
    for job, node in there:
        nodes.setdefault(job, []).append(node)
    return [Leaving(job, tuple(nodes.get(job.pk, ()))) for job in jobs]
