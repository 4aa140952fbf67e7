"""A user's own jobs, for their Home: counted whole, listed in part.

own_jobs(user)                    ─▶ OwnJobs: counts, and the first rows of each list
own_jobs(user, project="vision")      the same of one project
"""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, F, OuterRef, Q, Subquery

from portal.accounts.models import User
from portal.jobs.models import Attempt, Job
from portal.jobs.querysets import JobQuerySet, values_of
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


@dataclass(frozen=True, slots=True)
class OwnJobs:
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
    listed = rows.select_related("project", "owner")
    by_end = (F("deadline_at").asc(nulls_last=True), "-id")
    by_position = (F("position").asc(nulls_last=True), "id")
    attempts = Attempt.objects.filter(job=OuterRef("pk")).order_by("-number")
    ended = listed.final().filter(finished_at__gte=ended_since)
    ended = ended.annotate(failure=Subquery(attempts.values("first_failure")[:1]))
    return OwnJobs(
        counts,
        list(listed.allocated().order_by(*by_end)[:size]) if counts.running else [],
        list(listed.waiting().order_by(*by_position)[:size]) if counts.waiting else [],
        list(ended.order_by("-finished_at", "-id")[:size]) if counts.ended else [],
    )


def _counts(rows: JobQuerySet[Job], ended_since: datetime) -> OwnCounts:
    is_ended = Q(status__in=ENDED, finished_at__gte=ended_since)
    found = rows.filter(Q(status__in=[*RUNNING, *WAITING]) | is_ended).aggregate(
        running=Count("id", filter=Q(status__in=RUNNING)),
        waiting=Count("id", filter=Q(status__in=WAITING)),
        ended=Count("id", filter=is_ended),
    )
    return OwnCounts(**found)
