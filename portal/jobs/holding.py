"""What keeps a waiting job from starting by somebody's decision: a hold, or a missing approval.

Every function is one transaction with its event and its audit line.
"""

from typing import Any

from django.db import transaction
from django.utils import timezone

from portal.accounts.models import User
from portal.accounts.selectors import is_project_admin
from portal.audit.services import audit_record
from portal.audit.transitions import advance, note
from portal.duties.locks import locked
from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.selectors import may_cancel
from portal.live.bell import ring, ring_plan
from scheduler.core.states import JOB_WAITING, JobStatus


def job_hold(*, job: Job, by: User, because: str) -> Job:
    """Keep a waiting job from starting until somebody releases it.

    Raises Refused(forbidden, reason_missing, not_waiting).
    """
    if not may_cancel(by, job):
        raise Refused("forbidden", "Only its owner or an admin may hold a job", "", 403)
    if not because.strip():
        raise Refused("reason_missing", "Say why: whoever waits for it will read it", "because")
    with transaction.atomic():
        job = _waiting(job)
        _set_hold(job, by.username, because.strip()[:200])
        _told(job, "job_hold", f"{by.username} holds it: {job.held_because}", by)
    return job


def job_release(*, job: Job, by: User) -> Job:
    """Let a held job go on. What an admin holds, only an admin releases. Repeats are harmless.

    Raises Refused(forbidden, not_waiting).
    """
    if not may_cancel(by, job):
        raise Refused("forbidden", "Only its owner or an admin may release a job", "", 403)
    with transaction.atomic():
        job = _waiting(job)
        if not job.held_by:
            return job
        if by.username != job.held_by and not is_project_admin(by, job.project_id):
            raise Refused("forbidden", f"{job.held_by} holds it: only an admin can", "", 403)
        _set_hold(job, "", "")
        _told(job, "job_release", f"{by.username} released it", by)
    return job


def job_approve(*, job: Job, by: User, because: str = "") -> Job:
    """Queue a job that waits for an approval; `because` is said with it, where somebody says why.
    Raises Refused(forbidden, not_awaiting)."""
    because = because.strip()[:200]
    said = f"{by.username} approved it"
    with transaction.atomic():
        job = _awaiting(job, by)
        advance(
            job,
            JobStatus.QUEUED,
            actor=by.username,
            code="approved",
            sentence=f"{said}: {because}" if because else said,
            queued_at=timezone.now(),
        )
        asked = _asked(job) | ({"because": because} if because else {})
        Job.objects.filter(pk=job.pk).update(reason=None)
        _told(job, "job_approve", "", by, **asked)
    return job


def job_refuse(*, job: Job, by: User, because: str) -> Job:
    """End a job that waits for an approval. Raises Refused(forbidden, reason_missing,
    not_awaiting)."""
    if not because.strip():
        raise Refused("reason_missing", "Say why: its owner will read it", "because")
    with transaction.atomic():
        job = _awaiting(job, by)
        advance(
            job,
            JobStatus.CANCELLED,
            actor=by.username,
            code="refused",
            sentence=f"{by.username} refused it: {because.strip()}",
            stop_reason="refused",
            finished_at=timezone.now(),
        )
        asked = _asked(job)
        Job.objects.filter(pk=job.pk).update(reason=None)
        _told(job, "job_refuse", "", by, because=because.strip()[:200], **asked)
    return job


def _waiting(job: Job) -> Job:
    (row,) = locked(Job.objects.filter(pk=job.pk))
    if JobStatus(row.status) not in JOB_WAITING:
        raise Refused("not_waiting", f"{row.label} is {row.status}, not waiting", "", 409)
    return row


def _awaiting(job: Job, by: User) -> Job:
    if not is_project_admin(by, job.project_id):
        sentence = "Only an admin of the project, or of the platform, decides about approvals"
        raise Refused("forbidden", sentence, "", 403)
    (row,) = locked(Job.objects.filter(pk=job.pk))
    if row.status != JobStatus.AWAITING_APPROVAL:
        sentence = f"{row.label} is {row.status}: it waits for no approval"
        raise Refused("not_awaiting", sentence, "", 409)
    return row


def _asked(job: Job) -> dict[str, str]:
    """What was to be approved, for the audit line: the job's reason goes with the decision."""
    return {"approval": job.reason["sentence"]} if job.reason else {}


def _set_hold(job: Job, by: str, because: str) -> None:
    job.held_by, job.held_because = by, because
    job.save(update_fields=["held_by", "held_because"])


def _told(job: Job, action: str, sentence: str, by: User, **after: Any) -> None:
    """The event of what changed no status, the audit line, and the bells."""
    if sentence:
        note(job, action, sentence, actor=by.username)
    audit_record(
        actor=by.username,
        action=action,
        noun="job",
        noun_id=job.label,
        project=job.project,
        after={"status": job.status, "held_because": job.held_because} | after,
    )
    ring(f"job:{job.pk}")
    ring_plan()
