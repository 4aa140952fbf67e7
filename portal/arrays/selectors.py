"""Read arrays: those that a user may see, how their members stand, what each was given."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q

from portal.accounts.models import User
from portal.arrays.models import JobArray
from portal.database.kept_queries import KeptSelect, ListOf
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.querysets import JobQuerySet, values_of
from portal.jobs.selectors import ARRAY_LABEL
from scheduler.core.model.states import JOB_ALLOCATED, JOB_FAILED, JOB_FINAL, JOB_WAITING, JobStatus
from scheduler.core.request import parse_stored_request
from scheduler.core.request.arrays import array_members


@dataclass(frozen=True, slots=True)
class MemberCounts:
    """The members of an array by state."""

    running: int = 0
    """That have devices: placed, preparing, running or stopping."""
    waiting: int = 0
    succeeded: int = 0
    failed: int = 0
    """Also those beyond their time limit."""
    cancelled: int = 0

    @property
    def is_over(self) -> bool:
        return not (self.running or self.waiting)

    @property
    def total(self) -> int:
        return self.running + self.waiting + self.succeeded + self.failed + self.cancelled


STATES: Mapping[str, Collection[Any]] = {
    "running": JOB_ALLOCATED,
    "waiting": JOB_WAITING,
    "succeeded": (JobStatus.SUCCEEDED,),
    "failed": JOB_FAILED,
    "cancelled": JOB_FINAL - JOB_FAILED - {JobStatus.SUCCEEDED},
}
"""The statuses of each count."""


def arrays_visible_to(user: User) -> Any:
    return JobArray.objects.visible_to(user).select_related("project", "owner")


def array_visible(user: User, ref: str) -> JobArray:
    """One array by "A-5". Raises Refused(not_found); foreign and unknown read the same."""
    match = ARRAY_LABEL.fullmatch(ref)
    array: JobArray | None = (
        arrays_visible_to(user).filter(pk=int(match[1])).first() if match else None
    )
    if array is None:
        sentence = "This array does not exist, or you may not see it"
        raise Refused(ErrorCode.NOT_FOUND, sentence)
    return array


def members_of(array: JobArray) -> JobQuerySet[Job]:
    """The members, by index; without those that a retry has replaced."""
    rows: JobQuerySet[Job] = Job.objects.filter(array=array, array_index__isnull=False)
    return rows.order_by("array_index")


def arrays_of(jobs: Collection[Job]) -> dict[int, JobArray]:
    """By key: the arrays that these rows stand for in a list, without their requests. No query if
    there are none."""
    keys = {job.array_id for job in jobs if job.is_array_row and job.array_id}
    return JobArray.objects.defer("request").in_bulk(keys) if keys else {}


def member_counts(arrays: Collection[int]) -> dict[int, MemberCounts]:
    """By key of the array. One query, none if there are no arrays."""
    if not arrays:
        return {}
    counted = {
        array: MemberCounts(**dict(zip(STATES, numbers, strict=True)))
        for array, *numbers in _COUNTS.rows(list(arrays))
    }
    return {key: counted.get(key, MemberCounts()) for key in arrays}


def _counts_of(arrays: Any) -> Any:
    """The key of each array, and how many of its members are in each of STATES."""
    rows = Job.objects.filter(array__pk__in=arrays, array_index__isnull=False).order_by()
    sums = {
        name: Count("pk", filter=Q(status__in=values_of(statuses)))
        for name, statuses in STATES.items()
    }
    return rows.values_list("array").annotate(**sums)


_COUNTS: KeptSelect[tuple[int, ...]] = KeptSelect(_counts_of, ListOf(JobArray._meta.pk))


def member_parameters(array: JobArray) -> dict[int, Mapping[str, str]]:
    """By index: the parameters of each member of a sweep."""
    members = array_members(parse_stored_request(array.request))
    return {member.index: member.parameters for member in members}
