"""What keeps a waiting job from starting by somebody's decision: a hold, or a missing approval.

Every function is one transaction with its event and its audit line.
"""

from typing import Any

from django.db import transaction
from django.utils import timezone

from agents.contract.phrase import Phrase
from portal.accounts.models import User
from portal.accounts.selectors import is_project_admin
from portal.audit.services import audit_record
from portal.audit.transitions import advance, event_record
from portal.database.locks import lock_rows
from portal.errors import Refused
from portal.jobs.models import Job, StopReason
from portal.jobs.selectors import job_not_waiting, may_cancel
from portal.live.bell import ring, ring_plan
from portal.text import single_line
from scheduler.core.model.states import JOB_WAITING, JobStatus


def job_hold(*, job: Job, actor: User, reason: str) -> Job:
    """Keep a waiting job from starting until somebody releases it.

    Raises Refused(forbidden, reason_missing, not_waiting).
    """
    if not may_cancel(actor, job):
        raise Refused("forbidden", "Only its owner or an admin may hold a job", "", 403)
    reason = single_line(reason)
    if not reason:
        raise Refused("reason_missing", "Say why: whoever waits for it will read it", "because")
    with transaction.atomic():
        job = _waiting(job)
        _set_hold(job, actor.username, reason)
        _told(
            job,
            "job_hold",
            Phrase("%(user)s holds it: %(because)s", user=actor.username, because=job.hold_reason),
            actor,
        )
    return job


def job_release(*, job: Job, actor: User) -> Job:
    """Let a held job go on. What an admin holds, only an admin releases. Repeats are harmless.

    Raises Refused(forbidden, not_waiting).
    """
    if not may_cancel(actor, job):
        raise Refused("forbidden", "Only its owner or an admin may release a job", "", 403)
    with transaction.atomic():
        job = _waiting(job)
        if not job.hold_owner:
            return job
        if actor.username != job.hold_owner and not is_project_admin(actor, job.project_id):
            sentence = Phrase("%(user)s holds it: only an admin can", user=job.hold_owner)
            raise Refused("forbidden", sentence, "", 403)
        _set_hold(job, "", "")
        _told(job, "job_release", Phrase("%(user)s released it", user=actor.username), actor)
    return job


def job_approve(*, job: Job, actor: User, comment: str = "") -> Job:
    """Queue a job that waits for an approval; `because` is said with it, where somebody says why.
    Raises Refused(forbidden, not_awaiting)."""
    comment = single_line(comment)
    said = Phrase("%(user)s approved it", user=actor.username)
    with transaction.atomic():
        job = _awaiting(job, actor)
        advance(
            job,
            JobStatus.QUEUED,
            actor=actor.username,
            code="approved",
            sentence=Phrase("%(where)s: %(why)s", where=said, why=comment) if comment else said,
            queued_at=timezone.now(),
        )
        asked = _asked(job) | ({"because": comment} if comment else {})
        Job.objects.filter(pk=job.pk).update(reason=None)
        _told(job, "job_approve", "", actor, **asked)
    return job


def job_refuse(*, job: Job, actor: User, reason: str) -> Job:
    """End a job that waits for an approval. Raises Refused(forbidden, reason_missing,
    not_awaiting)."""
    reason = single_line(reason)
    if not reason:
        raise Refused("reason_missing", "Say why: its owner will read it", "because")
    with transaction.atomic():
        job = _awaiting(job, actor)
        advance(
            job,
            JobStatus.CANCELLED,
            actor=actor.username,
            code="refused",
            sentence=Phrase(
                "%(user)s refused it: %(because)s", user=actor.username, because=reason
            ),
            stop_reason=StopReason.REFUSED,
            finished_at=timezone.now(),
        )
        asked = _asked(job)
        Job.objects.filter(pk=job.pk).update(reason=None)
        _told(job, "job_refuse", "", actor, because=reason, **asked)
    return job


def _waiting(job: Job) -> Job:
    (row,) = lock_rows(Job.objects.filter(pk=job.pk))
    if JobStatus(row.status) not in JOB_WAITING:
        raise job_not_waiting(row)
    return row


def _awaiting(job: Job, by: User) -> Job:
    if not is_project_admin(by, job.project_id):
        sentence = "Only an admin of the project, or of the platform, decides about approvals"
        raise Refused("forbidden", sentence, "", 403)
    (row,) = lock_rows(Job.objects.filter(pk=job.pk))
    if row.status != JobStatus.AWAITING_APPROVAL:
        sentence = Phrase(
            "%(job)s is %(status)s: it waits for no approval",
            job=row.label,
            status=JobStatus(row.status),
        )
        raise Refused("not_awaiting", sentence, "", 409)
    return row


def _asked(job: Job) -> dict[str, str]:
    """What was to be approved, for the audit line: the job's reason goes with the decision."""
    return {"approval": job.reason["sentence"]} if job.reason else {}


def _set_hold(job: Job, by: str, because: str) -> None:
    job.hold_owner, job.hold_reason = by, because
    job.save(update_fields=["hold_owner", "hold_reason"])


def _told(job: Job, action: str, sentence: str, by: User, **after: Any) -> None:
    """The event of what changed no status, the audit line, and the bells."""
    if sentence:
        event_record(job, action, sentence, actor=by.username)
    audit_record(
        actor=by.username,
        action=action,
        noun="job",
        noun_id=job.label,
        project=job.project,
        after={"status": job.status, "held_because": job.hold_reason} | after,
    )
    ring(f"job:{job.pk}")
    ring_plan()
