"""A user's own jobs, for their Home: counted whole, listed in part.

own_jobs(user)                    ─▶ OwnJobs: counts, and the first rows of each list
own_jobs(user, project="vision")      the same of one project
"""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import (
    Case,
    Count,
    F,
    Max,
    Min,
    OrderBy,
    OuterRef,
    Q,
    Subquery,
    When,
)

from portal.accounts.models import User
from portal.jobs.models import Attempt, Job
from portal.jobs.querysets import ROW_KEY, JobQuerySet, values_of
from scheduler.core.model.states import JOB_ALLOCATED, JOB_FINAL, JOB_WAITING

RUNNING, WAITING, ENDED = map(values_of, (JOB_ALLOCATED, JOB_WAITING, JOB_FINAL))


@dataclass(frozen=True, slots=True)
class OwnCounts:
    """All of the user's jobs, also those that no list shows."""

    running: int
    """That have devices: placed, preparing, running or stopping."""
    waiting: int
    ended: int
    """Since the given time."""
    members: int
    """How many of all these are members of arrays."""


@dataclass(frozen=True, slots=True)
class OwnJobs:
    """In each list an array is one job, its first member there; `member_count` says how many it
    stands for. It is 0 of a job of no array, and missing if the user has no arrays."""

    counts: OwnCounts
    running: list[Job]
    """Those that end first."""
    waiting: list[Job]
    """In the order of the queue."""
    ended: list[Job]
    """The latest first; `failure` is the first failure of the last attempt, if it failed."""


def own_jobs(user: User, *, project: str = "", ended_since: datetime, size: int) -> OwnJobs:
    """At most `size` jobs in each list. At most four queries, one if there are no jobs."""
    rows = Job.objects.filter(owner=user)
    if project:
        rows = rows.filter(project__slug=project)
    counts = _counts(rows, ended_since)
    attempts = Attempt.objects.filter(job=OuterRef("pk")).order_by("-number")
    ended = rows.final().filter(finished_at__gte=ended_since)
    failure = Subquery(attempts.values("first_failure")[:1])

    def listed(
        jobs: JobQuerySet[Job], column: str, then: str, *, descending: bool = False
    ) -> JobQuerySet[Job]:
        order = _order(column, descending=descending)
        if counts.members:
            return _one_of_each_array(jobs, column, then, size, descending=descending)
        return jobs.select_related("project", "owner").order_by(order, then)

    last = listed(ended, "finished_at", "-id", descending=True).annotate(failure=failure)
    return OwnJobs(
        counts,
        list(listed(rows.allocated(), "deadline_at", "-id")[:size]) if counts.running else [],
        list(listed(rows.waiting(), "position", "id")[:size]) if counts.waiting else [],
        list(last[:size]) if counts.ended else [],
    )


def _order(column: str, *, descending: bool) -> OrderBy:
    return OrderBy(F(column), descending=descending, nulls_last=True)


def _one_of_each_array(
    rows: JobQuerySet[Job], column: str, then: str, size: int, *, descending: bool
) -> JobQuerySet[Job]:
    """The first `size` in this order, of each array one. Dearer than the rows themselves."""
    edge = Max(column) if descending else Min(column)
    firsts = rows.order_by().values(row=ROW_KEY).annotate(first=Min("id"), edge=edge)
    edges = _order("edge", descending=descending)
    keys = firsts.order_by(edges, then.replace("id", "first")).values("first")[:size]
    members = rows.filter(array=OuterRef("array"), array_index__isnull=False).order_by()
    count = Subquery(members.values("array").annotate(n=Count("pk")).values("n"))
    is_member = When(array_index__isnull=False, then=count)
    listed = Job.objects.filter(pk__in=keys).select_related("project", "owner")
    counted: JobQuerySet[Job] = listed.annotate(member_count=Case(is_member, default=0))
    return counted.order_by(_order(column, descending=descending), then)


def _counts(rows: JobQuerySet[Job], ended_since: datetime) -> OwnCounts:
    is_ended = Q(status__in=ENDED, finished_at__gte=ended_since)
    found = rows.filter(Q(status__in=[*RUNNING, *WAITING]) | is_ended).aggregate(
        running=Count("id", filter=Q(status__in=RUNNING)),
        waiting=Count("id", filter=Q(status__in=WAITING)),
        ended=Count("id", filter=is_ended),
        members=Count("array_index"),
    )
    return OwnCounts(**found)
