"""Decisions of people that keep a waiting job from starting: a hold, or a missing approval.

Every function is one transaction, with its event and its audit line.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agents.contract.message import NO_MESSAGE, Message
from portal.accounts.models import User
from portal.accounts.selectors import is_project_admin
from portal.audit.codes import AuditAction, EventCode
from portal.audit.services import audit_record
from portal.audit.transitions import Transitions, advance, event_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.jobs.models import Job, StopReason
from portal.jobs.querysets import JobQuerySet
from portal.jobs.selectors import job_not_waiting, may_cancel
from portal.live.bell import ring, ring_plan
from portal.text import single_line
from scheduler.core.model.states import JOB_WAITING, JobStatus


def job_hold(*, job: Job, actor: User, reason: str) -> Job:
    """Keep a waiting job from starting until it is released.

    Raises Refused(forbidden, reason_missing, not_waiting).
    """
    if not may_cancel(actor, job):
        raise Refused(ErrorCode.FORBIDDEN, "Only its owner or an admin may hold a job")
    reason = single_line(reason)
    if not reason:
        sentence = "Give a reason: people who wait for the job will read it"
        raise Refused(ErrorCode.REASON_MISSING, sentence, "because")
    with transaction.atomic():
        job = _waiting(job)
        _set_hold(job, actor.username, reason)
        values = {"user": actor.username, "because": job.hold_reason}
        _record(
            job,
            AuditAction.JOB_HOLD,
            Message("put on hold by %(user)s: %(because)s", **values),
            actor,
        )
    return job


def job_release(*, job: Job, actor: User) -> Job:
    """Release a held job. A hold by an admin is released by admins only. Repeats are harmless.

    Raises Refused(forbidden, not_waiting).
    """
    if not may_cancel(actor, job):
        raise Refused(ErrorCode.FORBIDDEN, "Only its owner or an admin may release a job")
    with transaction.atomic():
        job = _waiting(job)
        if not job.hold_owner:
            return job
        if actor.username != job.hold_owner and not is_project_admin(actor, job.project_id):
            sentence = "Held by %(user)s: only an admin can release it"
            raise Refused(ErrorCode.FORBIDDEN, Message(sentence, user=job.hold_owner))
        _set_hold(job, "", "")
        _record(
            job,
            AuditAction.JOB_RELEASE,
            Message("released by %(user)s", user=actor.username),
            actor,
        )
    return job


def jobs_hold_for_node(uids: Iterable[UUID], *, node_name: str) -> None:
    """Keep waiting jobs from starting while the node runs replicas of them that the portal does not
    know: a second copy would run beside them. A hold by a person stays as it is."""
    rows = Job.objects.waiting().filter(uid__in=list(uids), hold_owner="")
    for job in rows.lock_rows():
        _set_hold(job, _holder(node_name), f"{node_name} runs it, since before a restore")
        message = Message("%(node)s runs it, since before a restore", node=node_name)
        event_record(job, EventCode.JOB_HOLD, message, actor=job.hold_owner)
        ring(f"job:{job.pk}")


def jobs_release_for_node(*, node_name: str) -> None:
    """Release what `jobs_hold_for_node` holds: the node no longer runs it."""
    for job in Job.objects.waiting().filter(hold_owner=_holder(node_name)).lock_rows():
        _set_hold(job, "", "")
        message = Message("%(node)s no longer runs it", node=node_name)
        event_record(job, EventCode.JOB_RELEASE, message, actor=_holder(node_name))
        ring(f"job:{job.pk}")


def job_approve(*, job: Job, actor: User, comment: str = "") -> Job:
    """Queue a job that awaits approval. Raises Refused(forbidden, not_awaiting)."""
    comment = single_line(comment)
    with transaction.atomic():
        job = _awaiting(job, actor)
        advance(
            job,
            JobStatus.QUEUED,
            actor=actor.username,
            code=EventCode.APPROVED,
            message=_approved(actor, comment),
            queued_at=timezone.now(),
        )
        after = approval_reason(job) | ({"because": comment} if comment else {})
        Job.objects.filter(pk=job.pk).update(reason=None)
        _record(job, AuditAction.JOB_APPROVE, NO_MESSAGE, actor, **after)
    return job


def job_refuse(*, job: Job, actor: User, reason: str) -> Job:
    """End a job that awaits approval. Raises Refused(forbidden, reason_missing, not_awaiting)."""
    reason = _reason_to_refuse(reason)
    with transaction.atomic():
        job = _awaiting(job, actor)
        advance(
            job,
            JobStatus.CANCELLED,
            actor=actor.username,
            code=EventCode.REFUSED,
            message=_refused(actor, reason),
            stop_reason=StopReason.REFUSED,
            finished_at=timezone.now(),
        )
        after = approval_reason(job) | {"because": reason}
        Job.objects.filter(pk=job.pk).update(reason=None)
        _record(job, AuditAction.JOB_REFUSE, NO_MESSAGE, actor, **after)
    return job


def jobs_approve(*, jobs: JobQuerySet[Job], actor: User, comment: str = "") -> list[Job]:
    """Queue those of these that await approval, in one transaction and a fixed number of
    statements. They are of one project, and the caller writes the audit line.

    Raises Refused(forbidden, not_awaiting).
    """
    with transaction.atomic():
        return _decide(
            *(jobs, actor, JobStatus.QUEUED, EventCode.APPROVED),
            _approved(actor, single_line(comment)),
            queued_at=timezone.now(),
        )


def jobs_refuse(*, jobs: JobQuerySet[Job], actor: User, reason: str) -> list[Job]:
    """End those of these that await approval, as `jobs_approve` queues them.

    Raises Refused(forbidden, reason_missing, not_awaiting).
    """
    reason = _reason_to_refuse(reason)
    with transaction.atomic():
        return _decide(
            *(jobs, actor, JobStatus.CANCELLED, EventCode.REFUSED, _refused(actor, reason)),
            stop_reason=StopReason.REFUSED,
            finished_at=timezone.now(),
        )


def _decide(
    jobs: JobQuerySet[Job],
    actor: User,
    status: JobStatus,
    code: EventCode,
    message: Message,
    **columns: Any,
) -> list[Job]:
    rows = list(jobs.filter(status=JobStatus.AWAITING_APPROVAL).lock_rows())
    if not rows:
        raise Refused(ErrorCode.NOT_AWAITING, "None of these jobs awaits approval")
    require_approver(actor, rows[0].project_id)
    transitions, by = Transitions(), actor.username
    for job in rows:
        transitions.advance(job, status, actor=by, code=code, message=message, **columns)
        ring(f"job:{job.pk}")
    transitions.write()
    Job.objects.filter(pk__in=[job.pk for job in rows]).update(reason=None)
    ring_plan()
    return rows


def _approved(actor: User, comment: str) -> Message:
    approved = Message("approved by %(user)s", user=actor.username)
    return Message("%(where)s: %(why)s", where=approved, why=comment) if comment else approved


def _refused(actor: User, reason: str) -> Message:
    return Message("refused by %(user)s: %(because)s", user=actor.username, because=reason)


def _reason_to_refuse(text: str) -> str:
    """Raises Refused(reason_missing)."""
    reason = single_line(text)
    if not reason:
        raise Refused(
            ErrorCode.REASON_MISSING, "Give a reason: the job's owner will read it", "because"
        )
    return reason


def _waiting(job: Job) -> Job:
    (row,) = Job.objects.filter(pk=job.pk).lock_rows()
    if JobStatus(row.status) not in JOB_WAITING:
        raise job_not_waiting(row)
    return row


def require_approver(actor: User, project_pk: int) -> None:
    """Raises Refused(forbidden) unless the actor may decide on approvals of the project."""
    if not is_project_admin(actor, project_pk):
        sentence = Message("Only a project or platform admin can decide on approvals")
        raise Refused(ErrorCode.FORBIDDEN, sentence)


def _awaiting(job: Job, actor: User) -> Job:
    require_approver(actor, job.project_id)
    (row,) = Job.objects.filter(pk=job.pk).lock_rows()
    if row.status != JobStatus.AWAITING_APPROVAL:
        sentence = Message(
            "%(job)s is %(status)s, not awaiting approval",
            job=row.label,
            status=Message(row.status),
        )
        raise Refused(ErrorCode.NOT_AWAITING, sentence)
    return row


def approval_reason(job: Job) -> dict[str, str]:
    """For the audit line: the job's reason is cleared with the decision."""
    return {"approval": job.reason["sentence"]} if job.reason else {}


def _holder(node_name: str) -> str:
    return f"node:{node_name}"


def _set_hold(job: Job, owner: str, reason: str) -> None:
    job.hold_owner, job.hold_reason = owner, reason
    job.save(update_fields=["hold_owner", "hold_reason"])


def _record(job: Job, action: AuditAction, message: Message, actor: User, **after: Any) -> None:
    """The audit line, the bells, and an event if the status did not change (`message`)."""
    if message:
        event_record(job, EventCode(action), message, actor=actor.username)
    audit_record(
        actor=actor.username,
        action=action,
        noun="job",
        noun_id=job.label,
        project=job.project,
        after={"status": job.status, "held_because": job.hold_reason} | after,
    )
    ring(f"job:{job.pk}")
    ring_plan()
