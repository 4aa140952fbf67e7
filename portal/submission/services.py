"""Submit a request: it becomes a job in the queue, or one that awaits approval."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents.contract.message import Message
from portal.accounts.models import User
from portal.audit.codes import EventCode
from portal.audit.transitions import advance, event_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.jobs.models import Job
from portal.live.bell import ring, ring_plan
from portal.submission.admission import dependencies_of, request_check, require_pending_room
from scheduler.core.model.states import JobStatus
from scheduler.core.request import JobRequest, request_as_dict


def job_submit(*, user: User, request: JobRequest, actor: str = "") -> Job:
    """Create the job and ring the planner. A full cluster never refuses: the job is queued.

    Raises what `request_check` raises, the code of a reason why the request can never run, and
    Refused(pending_limit, after_unknown, after_failed).
    """
    check = request_check(user=user, request=request)
    if reason := check.infeasible:
        raise Refused(ErrorCode(reason.code), reason.message, "device")
    actor = actor or user.username
    with transaction.atomic():
        require_pending_room(user, check.project)
        before = dependencies_of(request, check.project)
        job = Job.objects.create(project=check.project, owner=user, **_columns(request))
        job.after.set(before)
        event_record(
            job, EventCode.SUBMITTED, Message("submitted by %(user)s", user=actor), actor=actor
        )
        if check.approval:
            advance(job, JobStatus.AWAITING_APPROVAL, actor=actor, reason=check.approval)
            job.reason = check.approval.as_dict()
            Job.objects.filter(pk=job.pk).update(reason=job.reason)
        else:
            advance(job, JobStatus.QUEUED, actor=actor, queued_at=timezone.now())
            ring_plan()
        ring(f"job:{job.pk}")
    return job


def _columns(request: JobRequest) -> dict[str, Any]:
    """What is queried or counted, besides the request itself."""
    return {
        "name": request.name,
        "kind": request.kind,
        "image": request.image,
        "request": request_as_dict(request),
        "replica_count": request.replicas,
        "cpu_milli": request.cpu_milli,
        "memory_mib": request.memory_mib,
        "disk_mib": request.disk_mib,
        "time_limit_seconds": request.time_limit_seconds,
        "limit_is_chosen": request.limit_is_chosen,
        "preemptible": request.preemptible,
        "begin_at": _begin_at(request),
        "priority": request.priority,
        "infrastructure_retries_left": request.infrastructure_retries,
        "user_retries_left": request.user_retries,
    }


def _begin_at(request: JobRequest) -> datetime | None:
    """The earliest start; a delay counts from now."""
    if request.begin_in:
        return timezone.now() + timedelta(seconds=request.begin_in)
    return datetime.fromtimestamp(request.begin_at, UTC) if request.begin_at else None
