"""The round over running gangs that finds those without progress: warned, and stopped where the
settings or their own requests want it. A gang is remembered with one row while it runs; so is any
other job that asks for it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from django.db import transaction
from django.db.models import Q

from agents.contract.message import Message
from portal.audit.codes import EventCode
from portal.audit.transitions import event_record
from portal.idle.hang_limits import HangLimit, HungLimits, own_hang_limits
from portal.idle.models import GangProgress
from portal.idle.progress import Progress, RankProgress
from portal.jobs.failure_causes import GangFailure
from portal.jobs.gang_faults import faulty_gang_stop
from portal.jobs.models import Attempt, Job, Replica
from portal.jobs.querysets import gang_filter
from portal.live.bell import ring
from scheduler.core.model.states import JobStatus


@dataclass(frozen=True, slots=True)
class _Gang:
    attempt: int
    marks: Mapping[int, str]
    is_silent: bool
    """Its node or site does not answer."""
    limit: HangLimit

    @property
    def first(self) -> Progress:
        """Before anybody has looked at it: with a limit of its own, its start is a first sign."""
        begun = self.limit.started_at
        return Progress({rank: RankProgress("", begun) for rank in self.marks} if begun else {})


def hung_gangs_sweep(*, now: datetime, limits: HungLimits) -> None:
    """One round: three queries, and a statement that writes; two queries while no limit holds for
    any job. The events of warnings are committed with it."""
    gangs = _running_gangs(limits.for_all(), own_hang_limits(limits))
    known = {row.job_id: row for row in GangProgress.objects.all()}
    rows, changed = [], []
    for job, gang in gangs.items():
        row = known.pop(job, None)
        if row is None or row.attempt != gang.attempt:
            row = GangProgress(job_id=job, attempt=gang.attempt)
            row.progress = gang.first
        before = row.progress
        after = (
            before.with_silent_nodes(now) if gang.is_silent else before.with_marks(gang.marks, now)
        )
        row.progress, warned_at = after, row.warned_at
        warning = _judge(row, after, now, gang.limit)
        if row.warned_at != warned_at:
            changed.append((row, warning))
        rows.append(row)
    if not (rows or known):
        return
    with transaction.atomic():
        if known:
            GangProgress.objects.filter(pk__in=list(known)).delete()
        GangProgress.objects.bulk_create(
            rows, update_conflicts=True, unique_fields=["job"], update_fields=GangProgress.COLUMNS
        )
        for row, warning in changed:
            if warning:
                _warning_record(row, warning)
            ring(f"job:{row.job_id}")


def _running_gangs(policy: HangLimit | None, own: Mapping[int, HangLimit]) -> dict[int, _Gang]:
    """By job: those for which a limit holds. One query, or none."""
    if policy is None and not own:
        return {}
    columns = ("attempt__job_id", "attempt_id", "attempt__silent_since", "rank", "log_bytes")
    found = (
        Replica.objects.filter(attempt__ended_at=None, attempt__job__status=JobStatus.RUNNING)
        .filter(_judged(policy, own))
        .order_by("attempt_id", "rank")
        .values_list(*columns, "metrics_position__updated_at")
    )
    gangs = {}
    for (job, attempt, silent), rows in groupby(found, key=lambda row: row[:3]):
        marks = {rank: _mark(size, at) for _, _, _, rank, size, at in rows}
        limit = own.get(job) or policy
        if limit is not None:
            gangs[job] = _Gang(attempt, marks, silent is not None, limit)
    return gangs


def _judged(policy: HangLimit | None, own: Collection[int]) -> Q:
    asking = Q(attempt__job__in=list(own))
    if policy is None:
        return asking
    # Most requests do not name it. It is compared in the database: a request may be large.
    flag = "attempt__job__request__idle_stop"
    is_not_exempt = Q(**{f"{flag}__isnull": True}) | Q(**{flag: True})
    return asking | gang_filter("attempt__") & is_not_exempt


def _mark(log_bytes: int, metrics_at: Any) -> str:
    return f"{log_bytes} {metrics_at or ''}" if log_bytes or metrics_at else ""


def _judge(
    row: GangProgress, progress: Progress, now: datetime, limit: HangLimit
) -> Message | None:
    """The warning that it gets now."""
    silent = progress.silence(now, limit.warn_after, is_exact=limit.started_at is not None)
    if silent is None:
        row.warned_at = row.stops_at = None
    elif row.warned_at is None:
        row.warned_at, row.stops_at = now, limit.stops_at(now)
        return _message(silent, progress)
    elif row.stops_at is not None and now >= row.stops_at:
        _stop(row, silent, progress)
    return None


def _message(silent: timedelta, progress: Progress) -> Message:
    minutes = int(silent.total_seconds() // 60)
    if len(progress.ranks) == 1:
        return Message(
            "it has written neither a log line nor a metric for %(minutes)s min", minutes=minutes
        )
    return Message(
        "no rank has written a log line or a metric for %(minutes)s min; rank %(rank)s was the "
        "first to fall silent",
        minutes=minutes,
        rank=progress.first_silent_rank,
    )


def _warning_record(row: GangProgress, warning: Message) -> None:
    data = {"stops_at": row.stops_at.isoformat() if row.stops_at else ""}
    event_record(row.job, EventCode.JOB_HUNG, warning, data=data)


def _stop(row: GangProgress, silent: timedelta, progress: Progress) -> None:
    """Unless it has ended meanwhile."""
    with transaction.atomic():
        open_one = Attempt.objects.open().filter(pk=row.attempt).values("job")
        for job in Job.objects.filter(pk__in=open_one, status=JobStatus.RUNNING).lock_rows():
            rank = Replica.objects.get(attempt=row.attempt, rank=progress.first_silent_rank)
            message = _message(silent, progress)
            faulty_gang_stop(job=job, rank=rank, code=GangFailure.HUNG, message=message)
