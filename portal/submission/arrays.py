"""Submit what a request asks for, one job or an array; retry the members that did not succeed.

request_submit(request)  ─▶ a job, or the first member of a new array
array_retry(array)       ─▶ new jobs that take the indices of the old ones
member_replace(old, new) ─▶ the new job takes the index of the old one
"""

from collections.abc import Sequence

from django.db import transaction

from agents.contract.message import Message
from portal.accounts.models import User
from portal.arrays.models import JobArray
from portal.arrays.selectors import members_of
from portal.audit.codes import EventCode
from portal.audit.transitions import Transitions
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.querysets import values_of
from portal.jobs.selectors import may_cancel_work
from portal.submission.admission import Admission, dependencies_of, pending_room
from portal.submission.services import CheckedRequest, job_submit, jobs_create
from scheduler.core.model.states import JOB_UNSUCCESSFUL
from scheduler.core.request import JobRequest, RequestLimits, parse_request, request_as_dict
from scheduler.core.request.arrays import array_cap, array_members, is_array
from scheduler.core.request.placeholders import member_request


def request_submit(*, user: User, request: JobRequest, actor: str = "") -> Job:
    """Create the job, or all members of the array and return the first; ring the planner once.

    Raises what `job_submit` raises; of an array all members are refused then.
    """
    if not is_array(request):
        return job_submit(user=user, request=request, actor=actor)
    with transaction.atomic():
        check = Admission(user).require_feasible(request)
        members = array_members(request)
        room = pending_room(check.membership)
        for _ in members:
            room.take()
        before = dependencies_of(request, check.project)
        array = JobArray.objects.create(
            project=check.project,
            owner=user,
            name=request.name,
            request=request_as_dict(request),
            size=len(members),
            max_running=array_cap(request),
        )
        checked = [
            CheckedRequest(member_request(request, member, array.size), check) for member in members
        ]
        places = [_place(array, member.index, is_first=not n) for n, member in enumerate(members)]
        jobs = jobs_create(user, actor, [(each, before) for each in checked], places)
    return jobs[0]


def array_retry(*, array: JobArray, actor: User, limits: RequestLimits) -> list[Job]:
    """Submit the members that ended without success once more, all or none: each new job takes the
    index of the old one, which keeps its log.

    Raises Refused(forbidden, not_over), RequestRefused, and what `job_submit` raises.
    """
    if not may_cancel_work(actor, owner=array.owner_id, project=array.project_id):
        sentence = Message("Only its owner or a project admin may retry an array")
        raise Refused(ErrorCode.FORBIDDEN, sentence)
    with transaction.atomic():
        # Locked, so that of two retries at once the second finds them without an index.
        members = members_of(array).filter(status__in=values_of(JOB_UNSUCCESSFUL))
        old = sorted(
            members.select_related("project", "owner").lock_rows(),
            key=lambda job: job.array_index or 0,
        )
        if not old:
            sentence = Message(
                "No member of %(array)s has failed or was cancelled", array=array.label
            )
            raise Refused(ErrorCode.NOT_OVER, sentence)
        requests = [parse_request(_without_begin(job), limits) for job in old]
        # Members differ in their parameters alone: one check is that of all.
        check = Admission(actor).require_feasible(requests[0])
        room = pending_room(check.membership)
        for _ in old:
            room.take()
        admitted = [(CheckedRequest(request, check), dict[int, bool]()) for request in requests]
        places = _leave(old)
        new = jobs_create(actor, "", admitted, places)
        _record_retries(old, new, actor.username)
    return new


def member_replace(*, old: Job, new: Job) -> None:
    """The new job becomes the member that the old one was; nothing for a job of no array."""
    if old.array_id is None or old.array_index is None:
        return
    (place,) = _leave([old])
    for name, value in place.items():
        setattr(new, name, value)
    new.save(update_fields=[*place])


def _place(array: JobArray, index: int, *, is_first: bool) -> dict[str, object]:
    """The columns of a member."""
    return {
        "array_id": array.pk,
        "array_index": index,
        "array_cap": array.max_running,
        "is_array_row": is_first,
    }


def _leave(jobs: Sequence[Job]) -> list[dict[str, object]]:
    """Take the jobs out of their indices, and return the columns for those that get them."""
    names = ("array_id", "array_index", "array_cap", "is_array_row")
    places = [{name: getattr(job, name) for name in names} for job in jobs]
    left = {"array_index": None, "is_array_row": False}
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(**left)
    return places


def _without_begin(job: Job) -> dict[str, object]:
    return {name: value for name, value in job.request.items() if name not in ("begin_at", "after")}


def _record_retries(old: Sequence[Job], new: Sequence[Job], by: str) -> None:
    events = Transitions()
    for before, after in zip(old, new, strict=True):
        message = Message("retried as %(job)s", job=after.label)
        events.record(before, EventCode.RETRIED, message, actor=by)
        message = Message("retry of %(job)s", job=before.label)
        events.record(after, EventCode.RETRIES, message, actor=by)
    events.write()
