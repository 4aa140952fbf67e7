"""Reads the recorded jobs of a window, and the cluster as it is, in a constant number of queries.

A job ran from when it was placed until that attempt was over, for each of its attempts; it takes as
long in the simulation. Manual actions are not replayed, except that a job withdrawn while it waited
is withdrawn again at that time.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet

from agents.contract.message import Message
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.jobs.models import Attempt, Dependency, Job
from portal.planning.history import past_runs
from portal.planning.requests import (
    SELECTED,
    epoch_seconds,
    request_specs,
    waiting_job_from_columns,
)
from portal.planning.snapshot import cluster_snapshot
from portal.planning.usage import owners
from portal.quotas.policy import current_policy
from scheduler.core.model.snapshot import WaitingJob
from scheduler.core.model.states import JobStatus
from scheduler.virtual.devices import emptied_nodes
from scheduler.virtual.values import RecordedJob, RecordedWindow, Scenario
from scheduler.what_if.comparison import MAX_JOBS, too_many_jobs

MAX_DAYS = 90
# The part of its limit that an unfinished job is assumed to take, if no job of the window ended.
DEFAULT_LIMIT_PART = 0.5

Attempts = list[tuple[int, int | None]]


def current_scenario(*, now: datetime, days: int) -> Scenario:
    """The cluster as it is, without any job, and owners' use when the window began."""
    since, policy = now - timedelta(days=days), current_policy()
    there = cluster_snapshot(now=now)
    return Scenario(
        nodes=emptied_nodes(there.nodes),
        quotas=tuple(replace(quota, used_units=0) for quota in there.quotas),
        policy=policy,
        owners=owners((), since, policy.half_life_seconds),
        dwell_seconds=settings.PLATFORM.partition_dwell_seconds,
        history=tuple(run for run in past_runs() if run.ended_at < epoch_seconds(since)),
    )


def jobs_in_window(since: datetime, until: datetime) -> QuerySet[Job]:
    """Jobs that waited or ran at some time in between, oldest first."""
    open_or_later = Q(finished_at__isnull=True) | Q(finished_at__gte=since)
    rows = Job.objects.filter(open_or_later, queued_at__isnull=False, queued_at__lte=until)
    return rows.order_by("queued_at", "id")


def require_recorded_jobs(*, now: datetime, days: int) -> None:
    """Raises Refused(days_invalid, no_jobs, too_many_jobs)."""
    if not 1 <= days <= MAX_DAYS:
        raise Refused(
            ErrorCode.DAYS_INVALID, Message("Choose 1 to %(most)s days", most=MAX_DAYS), "days"
        )
    number = jobs_in_window(now - timedelta(days=days), now).count()
    if not number:
        none = Message(
            "No job waited or ran in the last %(days)s days. Choose more days, at most %(most)s",
            days=days,
            most=MAX_DAYS,
        )
        raise Refused(ErrorCode.NO_JOBS, none, "days")
    if number > MAX_JOBS:
        raise Refused(ErrorCode.TOO_MANY_JOBS, too_many_jobs(number), "days")


def recorded_window(*, now: datetime, days: int) -> RecordedWindow:
    """The jobs of the last `days`."""
    since, until = epoch_seconds(now - timedelta(days=days)), epoch_seconds(now)
    jobs = jobs_in_window(now - timedelta(days=days), now)
    rows: list[Any] = list(jobs.values_list(*SELECTED, "finished_at", "status"))
    asked, attempts = request_specs(row[1] for row in rows), _attempts(jobs)
    after = _after(jobs, {row[0] for row in rows})
    read = [
        (waiting_job_from_columns(row, asked[row[1]], after.get(row[0], ())), row) for row in rows
    ]
    part = _median_limit_part((job, attempts[row[0]]) for job, row in read if row[-2])
    found = (
        _recorded(job, attempts[row[0]], row[-2], row[-1], since, until, part) for job, row in read
    )
    return RecordedWindow(since, until, tuple(found))


def _recorded(
    job: WaitingJob,
    attempts: Attempts,
    finished_at: datetime | None,
    status: str,
    since: int,
    until: int,
    part: float,
) -> RecordedJob:
    limit = job.time_limit_seconds
    held = [(start, until if end is None else end) for start, end in attempts]
    before = min(limit - 1, sum(max(0, min(end, since) - start) for start, end in held))
    ran = sum(max(0, end - max(start, since)) for start, end in held)
    if finished_at is None or not attempts:
        ran = max(ran, round(part * limit) - before)
    return RecordedJob(
        job=replace(job, attained_seconds=before, preempted=0, bypassed=0, hold_reason=""),
        ran_seconds=min(ran, limit - before),
        completed=status == JobStatus.SUCCEEDED,
        withdrawn_at=epoch_seconds(finished_at) if finished_at and not attempts else 0,
        waited_seconds=_waited(job.queued_at, held) if held else None,
        was_running=any(start < since < end for start, end in held),
        is_counted=job.queued_at >= since,
    )


def _waited(queued_at: int, held: list[tuple[int, int]]) -> int:
    """Seconds in the queue: before the first attempt, and between attempts."""
    waited = 0
    for start, end in held:
        waited += max(0, start - queued_at)
        queued_at = end
    return waited


def _median_limit_part(ended: Iterable[tuple[WaitingJob, Attempts]]) -> float:
    """The median part of their limits that ended jobs took."""
    parts = [
        min(1.0, sum(end - start for start, end in attempts if end) / job.time_limit_seconds)
        for job, attempts in ended
        if attempts
    ]
    return median(parts) if parts else DEFAULT_LIMIT_PART


def _attempts(jobs: QuerySet[Job]) -> dict[int, Attempts]:
    """By job: when each of its attempts began and ended."""
    rows = Attempt.objects.filter(job__in=jobs.order_by().values("pk"))
    found: dict[int, Attempts] = defaultdict(list)
    times = rows.order_by("job_id", "number").values_list("job_id", "created_at", "ended_at")
    for job, start, end in times:
        found[job].append((epoch_seconds(start), epoch_seconds(end) if end else None))
    return found


def _after(jobs: QuerySet[Job], known: set[int]) -> dict[int, tuple[str, ...]]:
    """By job: its dependencies inside the window. Earlier ones have ended."""
    links = Dependency.objects.filter(from_job__in=jobs.order_by().values("pk"))
    found: dict[int, list[str]] = defaultdict(list)
    rows = links.order_by("from_job_id", "to_job_id").values_list("from_job_id", "to_job_id")
    for job, other in rows:
        if other in known:
            found[job].append(str(other))
    return {job: tuple(others) for job, others in found.items()}
