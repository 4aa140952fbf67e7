"""Retry an ended job: a new job of the same request, checked like any other."""

from django.db import transaction
from django.utils import timezone

from agents.contract.message import Message
from portal.accounts.models import User
from portal.audit.codes import EventCode
from portal.audit.transitions import event_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.files.selectors import newest_checkpoint
from portal.jobs.models import Job
from portal.jobs.selectors import may_cancel
from portal.submission.arrays import member_replace
from portal.submission.services import job_submit
from scheduler.core.model.states import JOB_FINAL, JobStatus
from scheduler.core.request import RequestLimits, parse_request


def may_retry(user: User, job: Job) -> bool:
    """The users who could have cancelled it may retry it once it has ended."""
    return JobStatus(job.status) in JOB_FINAL and may_cancel(user, job)


def job_retry(*, job: Job, actor: User, limits: RequestLimits) -> Job:
    """Submit its request once more, as a new job of `actor`.

    Raises Refused(forbidden, not_over), RequestRefused, and what `job_submit` raises.
    """
    if not may_cancel(actor, job):
        sentence = Message("Only its owner or a project admin may retry a job")
        raise Refused(ErrorCode.FORBIDDEN, sentence)
    if JobStatus(job.status) not in JOB_FINAL:
        sentence = Message(
            "%(job)s is %(status)s: cancel it first, or wait until it has ended",
            job=job.label,
            status=Message(job.status),
        )
        raise Refused(ErrorCode.NOT_OVER, sentence)
    request = parse_request(_request_again(job), limits)
    with transaction.atomic():
        new = job_submit(user=actor, request=request)
        step = _resume(new, job)
        member_replace(old=job, new=new)
        by = actor.username
        event_record(job, EventCode.RETRIED, Message("retried as %(job)s", job=new.label), actor=by)
        event_record(new, EventCode.RETRIES, _origin(job, step), actor=by)
    return new


def _resume(new: Job, job: Job) -> int | None:
    """Have it start with the newest checkpoint of the job. Returns the step, None without one."""
    saved = newest_checkpoint(job)
    if not saved or new.project_id != job.project_id:
        return None
    new.resumes_id = saved[0].job_id
    new.save(update_fields=["resumes"])
    return saved[0].step


def _origin(job: Job, step: int | None) -> Message:
    if step is None:
        return Message("retry of %(job)s", job=job.label)
    return Message("retry of %(job)s, from its step %(step)s", job=job.label, step=step)


def _request_again(job: Job) -> dict[str, object]:
    """Its stored request. A begin time stays only while it lies ahead."""
    stored = {name: value for name, value in job.request.items() if name != "begin_at"}
    if job.begin_at and job.begin_at > timezone.now():
        stored["begin_at"] = job.begin_at.isoformat(timespec="seconds")
    return stored
