"""The round over running gangs that finds those without progress: warned, and stopped where the
settings want it. A gang is remembered with one row while it runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from django.db import transaction
from django.db.models import Q

from agents.contract.message import Message
from portal.audit.codes import EventCode
from portal.audit.transitions import event_record
from portal.idle.models import GangProgress
from portal.idle.progress import Progress
from portal.jobs.failure_causes import GangFailure
from portal.jobs.gang_faults import faulty_gang_stop
from portal.jobs.models import Attempt, Job, Replica
from portal.jobs.querysets import gang_filter
from portal.live.bell import ring
from scheduler.core.model.states import JobStatus

# After a warning there is at least this long until a stop.
MIN_NOTICE_MINUTES = 5


@dataclass(frozen=True, slots=True)
class HungLimits:
    """Of the installation. `warn_minutes` 0: nothing is judged; `stop_minutes` 0: nothing stops."""

    warn_minutes: int
    stop_minutes: int

    def stops_at(self, now: datetime) -> datetime | None:
        if not self.stop_minutes:
            return None
        notice = max(self.stop_minutes - self.warn_minutes, MIN_NOTICE_MINUTES)
        return now + timedelta(minutes=notice)


@dataclass(frozen=True, slots=True)
class _Gang:
    attempt: int
    marks: Mapping[int, str]
    is_silent: bool
    """Its node or site does not answer."""


def hung_gangs_sweep(*, now: datetime, limits: HungLimits) -> None:
    """One round. Nothing is asked without a limit; else two statements, and one that writes. The
    events of warnings are committed with it."""
    if not limits.warn_minutes:
        return
    gangs = _running_gangs()
    known = {row.job_id: row for row in GangProgress.objects.all()}
    rows, changed = [], []
    for job, gang in gangs.items():
        row = known.pop(job, None)
        if row is None or row.attempt != gang.attempt:
            row = GangProgress(job_id=job, attempt=gang.attempt)
        before = row.progress
        after = (
            before.with_silent_nodes(now) if gang.is_silent else before.with_marks(gang.marks, now)
        )
        row.progress, warned_at = after, row.warned_at
        warning = _judge(row, after, now, limits)
        if row.warned_at != warned_at:
            changed.append((row, warning))
        rows.append(row)
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


def _running_gangs() -> dict[int, _Gang]:
    """By job, but those that are exempt. One query."""
    open_one = {"attempt__ended_at": None, "attempt__job__status": JobStatus.RUNNING}
    ranks = Replica.objects.filter(gang_filter("attempt__"), **open_one)
    # Most requests do not name it. It is compared in the database: a request may be large.
    flag = "attempt__job__request__idle_stop"
    ranks = ranks.filter(Q(**{f"{flag}__isnull": True}) | Q(**{flag: True}))
    columns = ("attempt__job_id", "attempt_id", "attempt__silent_since", "rank", "log_bytes")
    found = ranks.order_by("attempt_id", "rank").values_list(
        *columns, "metrics_position__updated_at"
    )
    gangs = {}
    for (job, attempt, silent), rows in groupby(found, key=lambda row: row[:3]):
        marks = {rank: _mark(size, at) for _, _, _, rank, size, at in rows}
        gangs[job] = _Gang(attempt, marks, silent is not None)
    return gangs


def _mark(log_bytes: int, metrics_at: Any) -> str:
    return f"{log_bytes} {metrics_at or ''}" if log_bytes or metrics_at else ""


def _judge(
    row: GangProgress, progress: Progress, now: datetime, limits: HungLimits
) -> Message | None:
    """The warning that it gets now."""
    silent = progress.silence(now, timedelta(minutes=limits.warn_minutes))
    if silent is None:
        row.warned_at = row.stops_at = None
    elif row.warned_at is None:
        row.warned_at, row.stops_at = now, limits.stops_at(now)
        return _message(silent, progress.first_silent_rank)
    elif row.stops_at is not None and now >= row.stops_at:
        _stop(row, silent, progress.first_silent_rank)
    return None


def _message(silent: timedelta, rank: int) -> Message:
    return Message(
        "no rank has written a log line or a metric for %(minutes)s min; rank %(rank)s was the "
        "first to fall silent",
        minutes=int(silent.total_seconds() // 60),
        rank=rank,
    )


def _warning_record(row: GangProgress, warning: Message) -> None:
    data = {"stops_at": row.stops_at.isoformat() if row.stops_at else ""}
    event_record(row.job, EventCode.JOB_HUNG, warning, data=data)


def _stop(row: GangProgress, silent: timedelta, rank: int) -> None:
    """Unless it has ended meanwhile."""
    with transaction.atomic():
        open_one = Attempt.objects.open().filter(pk=row.attempt).values("job")
        for job in Job.objects.filter(pk__in=open_one, status=JobStatus.RUNNING).lock_rows():
            replica = Replica.objects.get(attempt=row.attempt, rank=rank)
            message = _message(silent, rank)
            faulty_gang_stop(job=job, rank=replica, code=GangFailure.HUNG, message=message)
