"""Jobs whose statuses move by hand, and rounds of the task that tells about them."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.utils import timezone

from portal.audit.transitions import advance
from portal.jobs.models import Job
from portal.leases.models import TaskLease
from portal.notices.collection import LEASE, notices_collect
from portal.notices.dispatch import GATHER, mails_send, notices_gather
from scheduler.core.model.states import JobStatus

SENDER = "tessera@example.org"
URL = "https://gpu.example.org"
TO_RUNNING = (JobStatus.PLACED, JobStatus.PREPARING, JobStatus.RUNNING)


def start(job: Job, *, waited: timedelta = timedelta(), left: timedelta | None = None) -> None:
    """Make it run, after having waited so long, with so much of its time limit left."""
    now = timezone.now()
    Job.objects.filter(pk=job.pk).update(queued_at=now - waited)
    job.refresh_from_db()
    columns: dict[str, Any] = {"started_at": now}
    if left is not None:
        columns["deadline_at"] = now + left
    for status in TO_RUNNING:
        advance(job, status, **(columns if status is JobStatus.RUNNING else {}))


def end(job: Job, status: StrEnum, *, actor: str = "system") -> None:
    if job.status == JobStatus.QUEUED and status in (JobStatus.SUCCEEDED, JobStatus.TIMED_OUT):
        start(job)
    advance(job, status, actor=actor, finished_at=timezone.now())


def tell(*, later: timedelta = GATHER, mails: bool = True) -> None:
    """One round that collects, time limits and budgets too, and one so much later that sends what
    is due by then."""
    now = timezone.now()
    for row in TaskLease.objects.filter(name=LEASE):
        row.continuation.pop("looked_at", None)
        row.save(update_fields=["continuation"])
    notices_collect(now, mails=mails)
    send(now + later)


def send(at: datetime) -> None:
    notices_gather(at, base_url=URL)
    mails_send(at, sender=SENDER, base_url=URL)
