"""A job that is over is asked for again: a new job of the same request, admitted like any other."""

from django.db import transaction
from django.utils import timezone

from agents.contract.phrase import Phrase
from portal.accounts.models import User
from portal.audit.transitions import event_record
from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.selectors import may_cancel
from portal.submission.services import job_submit
from scheduler.core.model.states import JOB_FINAL, JobStatus
from scheduler.core.request import RequestLimits, parse_request


def may_retry(user: User, job: Job) -> bool:
    """Whoever could have cancelled it, once it is over."""
    return JobStatus(job.status) in JOB_FINAL and may_cancel(user, job)


def job_retry(*, job: Job, actor: User, limits: RequestLimits, idempotency_key: str = "") -> Job:
    """Queue its request once more, as a new job of `by`. A time to begin that is over is left out.

    Raises Refused(forbidden, not_over), RequestRefused, and what `job_submit` raises.
    """
    if not may_cancel(actor, job):
        sentence = "Only its owner or a project admin may retry a job"
        raise Refused("forbidden", sentence, "", 403)
    if JobStatus(job.status) not in JOB_FINAL:
        sentence = Phrase(
            "%(job)s is %(status)s: cancel it first, or wait until it is over",
            job=job.label,
            status=JobStatus(job.status),
        )
        raise Refused("not_over", sentence, "", 409)
    request = parse_request(_asked(job), limits)
    with transaction.atomic():
        new = job_submit(user=actor, request=request, idempotency_key=idempotency_key)
        if not new.events.filter(code="retries").exists():
            event_record(
                job,
                "retried",
                Phrase("%(job)s tries it again", job=new.label),
                actor=actor.username,
            )
            event_record(
                new,
                "retries",
                Phrase("it tries %(job)s again", job=job.label),
                actor=actor.username,
            )
    return new


def _asked(job: Job) -> dict[str, object]:
    asked = dict(job.request)
    is_over = job.begin_at is None or job.begin_at <= timezone.now()
    asked.pop("begin_at", None)
    if not is_over and job.begin_at:
        asked["begin_at"] = job.begin_at.isoformat(timespec="seconds")
    return asked
