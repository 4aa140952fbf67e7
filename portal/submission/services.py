"""Submit requests: they become jobs in the queue, or jobs that await approval.

job_submit(request)  ─▶ one job
jobs_submit(bodies)  ─▶ many at once: all of them, or none and the problems of each
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents.contract.message import Message
from portal.accounts.models import User
from portal.audit.codes import EventCode
from portal.audit.transitions import Transitions
from portal.database.row_writes import rows_insert
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.files.services import code_keep
from portal.jobs.models import Dependency, Job
from portal.live.bell import ring, ring_plan
from portal.request_id import audited_request_id
from portal.submission.admission import (
    Admission,
    PendingRoom,
    RequestCheck,
    dependencies_of,
    pending_room,
)
from portal.submission.homes import with_home
from portal.volumes.services import volumes_take
from scheduler.core.model.reasons import Reason
from scheduler.core.model.states import JobStatus
from scheduler.core.request import (
    FieldError,
    InvalidRequest,
    JobRequest,
    ProblemCode,
    RequestLimits,
    parse_request,
    request_as_dict,
)
from scheduler.core.request.arrays import is_array

MAX_JOBS = 1_000
"""In one call."""
Problem = Refused | InvalidRequest


class BulkRefusedError(Exception):
    """Nothing was submitted."""

    def __init__(self, problems: Mapping[int, Problem], total: int) -> None:
        """`problems`: of each refused request, by its index among `total` of them."""
        super().__init__(f"{len(problems)} of {total} requests are refused")
        self.problems, self.total = problems, total


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A request that nothing refuses so far."""

    request: JobRequest
    check: RequestCheck


def job_submit(*, user: User, request: JobRequest, actor: str = "") -> Job:
    """Create the job and ring the planner. A full cluster never refuses: the job is queued.

    Raises what `Admission.check` raises, the code of a reason why the request can never run, and
    Refused(pending_limit, after_unknown, after_failed).
    """
    # With the checks, though they lock nothing: read alone, each would be a transaction of its own.
    with transaction.atomic():
        request = with_home(request)
        checked = CheckedRequest(request, Admission(user).require_feasible(request))
        pending_room(checked.check.membership).take()
        before = dependencies_of(request, checked.check.project)
        (job,) = jobs_create(user, actor, [(checked, before)])
    return job


def jobs_submit(
    *, user: User, bodies: Sequence[Any], limits: RequestLimits, actor: str = ""
) -> list[Job]:
    """Create a job for each request in one transaction, in their order, and ring the planner once.
    Each is checked as if those before it had been submitted one by one.

    Raises BulkRefusedError, and Refused(too_many).
    """
    checked = bulk_check(user=user, bodies=bodies, limits=limits)
    with transaction.atomic():
        return jobs_create(user, actor, _admitted(checked, is_locking=True))


def bulk_check(*, user: User, bodies: Sequence[Any], limits: RequestLimits) -> list[CheckedRequest]:
    """What `jobs_submit` would check, as far as that needs no lock. A body that is there several
    times, as one object, is read once. Raises what `jobs_submit` raises."""
    if len(bodies) > MAX_JOBS:
        sentence = Message("Submit at most %(n)s jobs at once", n=MAX_JOBS)
        raise Refused(ErrorCode.TOO_MANY_ITEMS, sentence, "jobs")
    admission = Admission(user)
    outcomes: dict[int, CheckedRequest | Problem] = {}
    for body in bodies:
        if id(body) not in outcomes:
            outcomes[id(body)] = _outcome(admission, body, limits)
    found = [outcomes[id(body)] for body in bodies]
    problems = {n: each for n, each in enumerate(found) if not isinstance(each, CheckedRequest)}
    if problems:
        raise BulkRefusedError(problems, len(found))
    checked = [each for each in found if isinstance(each, CheckedRequest)]
    _admitted(checked, is_locking=False)
    return checked


def _outcome(admission: Admission, body: Any, limits: RequestLimits) -> CheckedRequest | Problem:
    try:
        request = parse_request(body, limits)
        if is_array(request):
            field = "sweep" if request.sweep else "array"
            sentence = Message("submit an array alone, in a call of its own")
            raise InvalidRequest((FieldError(field, ProblemCode.COMBINATION, sentence),))
        request = with_home(request)
        return CheckedRequest(request, admission.require_feasible(request))
    except (Refused, InvalidRequest) as problem:
        return problem


def _admitted(
    checked: Sequence[CheckedRequest], *, is_locking: bool
) -> list[tuple[CheckedRequest, Mapping[int, bool]]]:
    """Each request with the `dependencies_of` it, as far as waiting jobs have room.

    Raises BulkRefusedError.
    """
    rooms = dict(_rooms(checked, is_locking=is_locking))
    admitted: list[tuple[CheckedRequest, Mapping[int, bool]]] = []
    problems = {}
    for index, each in enumerate(checked):
        try:
            rooms[each.check.project.pk].take()
            admitted.append((each, dependencies_of(each.request, each.check.project)))
        except Refused as refused:
            problems[index] = refused
    if problems:
        raise BulkRefusedError(problems, len(checked))
    return admitted


def _rooms(
    checked: Sequence[CheckedRequest], *, is_locking: bool
) -> Iterator[tuple[int, PendingRoom]]:
    """By project, locked in the order of their keys, as all submits do."""
    memberships = {each.check.project.pk: each.check.membership for each in checked}
    for project_id in sorted(memberships):
        yield project_id, pending_room(memberships[project_id], is_locking=is_locking)


def jobs_create(
    user: User,
    actor: str,
    admitted: Sequence[tuple[CheckedRequest, Mapping[int, bool]]],
    places: Sequence[Mapping[str, Any]] = (),
) -> list[Job]:
    """The jobs with their events, in a fixed number of statements. `places`: columns of each that
    make it a member of an array."""
    actor = actor or user.username
    jobs = [
        Job(
            project=each.check.project,
            owner=user,
            request_id=audited_request_id(),
            reason=each.check.approval.as_dict() if each.check.approval else None,
            **_columns(each.request),
            **place,
        )
        for (each, _), place in zip(admitted, places or repeat({}), strict=False)
    ]
    approvals = [each.check.approval for each, _ in admitted]
    transitions = _begin(jobs, approvals, actor)
    if len(jobs) == 1:
        (job,) = jobs
        job.pk = rows_insert(Job, jobs)
        job._state.adding = False
    else:
        Job.objects.bulk_create(jobs)
    _depend(jobs, [before for _, before in admitted])
    volumes_take(jobs, [each.request.volumes for each, _ in admitted])
    code_keep(code=[each.request.code_tree for each, _ in admitted])
    newest = transitions.write()
    if len(jobs) == 1:
        jobs[0].newest_event = newest
    if not all(approvals):
        ring_plan()
    # One ring is enough: nobody waits for a job that is new, and streams of all jobs read on.
    ring(f"job:{jobs[-1].pk}")
    return jobs


def _depend(jobs: Sequence[Job], before: Sequence[Mapping[int, bool]]) -> None:
    links = [
        Dependency(from_job=job, to_job_id=first, requires_success=requires_success)
        for job, needs in zip(jobs, before, strict=True)
        for first, requires_success in needs.items()
    ]
    if links:
        Dependency.objects.bulk_create(links)


def _begin(jobs: Sequence[Job], approvals: Sequence[Reason | None], actor: str) -> Transitions:
    """Queue each of these new jobs, or let it await approval: the caller inserts them, then writes
    the transitions."""
    message = Message("submitted by %(user)s", user=actor)
    now, transitions = timezone.now(), Transitions()
    for job, reason in zip(jobs, approvals, strict=True):
        transitions.record(job, EventCode.SUBMITTED, message, actor=actor)
        if reason:
            transitions.advance(job, JobStatus.AWAITING_APPROVAL, actor=actor, reason=reason)
        else:
            transitions.advance(job, JobStatus.QUEUED, actor=actor, queued_at=now)
    return transitions


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
