"""Check a request and submit it as a job."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.contract.phrase import Phrase
from portal.accounts.models import Membership, Project, Role, User
from portal.audit.transitions import advance, event_record
from portal.catalogue.selectors import require_image_allowed
from portal.errors import Refused
from portal.jobs.models import Job
from portal.live.bell import ring, ring_plan
from portal.planning.requests import waiting_job_from_request
from portal.planning.snapshot import cluster_snapshot
from portal.submission.admission import approval, dependencies_of, require_pending_room
from scheduler.core.model.reasons import Reason
from scheduler.core.model.states import JobStatus
from scheduler.core.placement.feasibility import ClusterCapacity
from scheduler.core.request import JobRequest, parse_stored, request_as_dict


@dataclass(frozen=True, slots=True)
class RequestCheck:
    """What a submit would find: why the request can never run here, and why an admin has to approve
    it first."""

    never: Reason | None
    approval: Reason | None


def request_check(
    *, user: User, request: JobRequest, capacity: ClusterCapacity | None = None
) -> RequestCheck:
    """The same checks that submit makes, and Refused as it raises it. `capacity`: of the cluster,
    where the caller has read it."""
    project = _project(user, request.project)
    judged = _judged(project, user, request, capacity)
    require_pending_room(user, project, is_locking=False)
    dependencies_of(request, project)
    return judged


def _judged(
    project: Project, user: User, request: JobRequest, capacity: ClusterCapacity | None = None
) -> RequestCheck:
    require_image_allowed(project, request.image)
    now = timezone.now()
    waiting = waiting_job_from_request(
        request,
        id="check",
        project=project.slug,
        user=user.username,
        queued_at=int(now.timestamp()),
    )
    capacity = capacity or ClusterCapacity(cluster_snapshot(now=now))
    return RequestCheck(
        capacity.infeasible_reason(waiting), approval(request, project, capacity.boards)
    )


def job_submit(
    *, user: User, request: JobRequest, idempotency_key: str = "", actor: str = ""
) -> Job:
    """Write down what the user wants and ring the planner. A full cluster never refuses.

    With an idempotency key, the same request again returns the first job; another request under
    the same key raises Refused(idempotency_mismatch). Also raises Refused(pending_limit,
    after_unknown, after_failed), and what `job_check` finds.
    """
    if idempotency_key and (earlier := _earlier(user, idempotency_key)):
        return _same_or_refused(earlier, request)
    project = _project(user, request.project)
    judged = _judged(project, user, request)
    if never := judged.never:
        raise Refused(str(never.code), never.sentence, "device", 400, never.message)
    try:
        with transaction.atomic():
            require_pending_room(user, project)
            job = _job_create(user, project, request, idempotency_key, actor or user.username)
            _admit(job, judged.approval, actor or user.username)
            return job
    except IntegrityError:
        if earlier := _earlier(user, idempotency_key):
            return _same_or_refused(earlier, request)
        raise


def job_keys_expire(*, before: datetime) -> None:
    """The keys of jobs that were submitted by then are free to be used again."""
    old = Job.objects.filter(submitted_at__lte=before).exclude(idempotency_key="")
    old.update(idempotency_key="")


def _project(user: User, slug: str) -> Project:
    """The project, where the user may start work. One answer for unknown and foreign ones."""
    roles = [Role.MEMBER, Role.ADMIN]
    mine = Membership.objects.filter(user=user, role__in=roles, project__archived=False)
    membership = mine.filter(project__slug=slug).select_related("project").first()
    if membership is None:
        names = ", ".join(mine.values_list("project__slug", flat=True)) or "none"
        sentence = Phrase(
            "%(slug)s is not a project you can start work in. Yours: %(names)s",
            slug=repr(slug),
            names=names,
        )
        raise Refused("project_unknown", sentence, "project", 400)
    return membership.project


def _earlier(user: User, key: str) -> Job | None:
    return Job.objects.filter(owner=user, idempotency_key=key).first() if key else None


def _same_or_refused(job: Job, request: JobRequest) -> Job:
    if parse_stored(job.request) != request:
        sentence = Phrase(
            "This Idempotency-Key made %(job)s from another request. Use a new key", job=job.label
        )
        raise Refused("idempotency_mismatch", sentence, "", 422)
    return job


def _job_create(user: User, project: Project, request: JobRequest, key: str, actor: str) -> Job:
    before = dependencies_of(request, project)
    job = Job.objects.create(project=project, owner=user, idempotency_key=key, **_columns(request))
    job.after.set(before)
    event_record(job, "submitted", Phrase("asked by %(user)s", user=actor), actor=actor)
    return job


def _admit(job: Job, reason: Reason | None, actor: str) -> None:
    """Into the queue, or before an admin who has to approve it."""
    if reason:
        told = reason.as_dict()
        advance(job, JobStatus.AWAITING_APPROVAL, actor=actor, reason=reason)
        Job.objects.filter(pk=job.pk).update(reason=told)
        job.reason = told
    else:
        advance(job, JobStatus.QUEUED, actor=actor, queued_at=timezone.now())
        ring_plan()
    ring(f"job:{job.pk}")


def _columns(request: JobRequest) -> dict[str, Any]:
    return {
        "name": request.name,
        "kind": request.kind,
        "image": request.image,
        "request": request_as_dict(request),
        "replicas_wanted": request.replicas,
        "cpu_milli": request.cpu_milli,
        "memory_mib": request.memory_mib,
        "disk_mib": request.disk_mib,
        "time_limit_seconds": request.time_limit_seconds,
        "limit_is_chosen": request.limit_is_chosen,
        "preemptible": request.preemptible,
        "begin_at": _begin(request),
        "priority": request.priority,
        "infrastructure_retries_left": request.infrastructure_retries,
        "user_retries_left": request.user_retries,
    }


def _begin(request: JobRequest) -> datetime | None:
    """When it may begin at the earliest; a delay counts from now."""
    if request.begin_in:
        return timezone.now() + timedelta(seconds=request.begin_in)
    return datetime.fromtimestamp(request.begin_at, UTC) if request.begin_at else None
