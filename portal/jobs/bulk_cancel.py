"""Cancel several jobs at once: first which of them the user may cancel, then cancelling them."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from agents.contract.message import Message
from portal.accounts.models import Membership, Role, User
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.selectors import LABEL, jobs_visible_to
from portal.jobs.services import job_cancel
from scheduler.core.model.states import JOB_FINAL, JobStatus

MAX_JOBS = 200


@dataclass(frozen=True, slots=True)
class CancelSelection:
    """The jobs named by a user, by what can be done with them."""

    cancellable: list[Job]
    ended: list[Job]
    """Stopping, or ended."""
    forbidden: list[Job]
    """Visible, but only others may cancel them."""
    unknown_count: int
    """Labels of no job that the user may see."""


def cancel_permission(
    user: User, administered: Collection[int] | None = None
) -> Callable[[Job], bool]:
    """`selectors.may_cancel` for many jobs. One query, none with `administered`, the ids of the
    projects whose admin the user is."""
    if user.is_platform_admin:
        return lambda job: True
    if administered is None:
        rows = Membership.objects.filter(user=user, role=Role.ADMIN)
        administered = frozenset(rows.values_list("project_id", flat=True))
    return lambda job: job.owner_id == user.pk or job.project_id in administered


def jobs_by_label(user: User, refs: Collection[str]) -> dict[str, Job | None]:
    """By label ("J-12" or "12"): the job, or None if the user may not see one. One query."""
    keys = {ref: int(match[1]) for ref in refs if (match := LABEL.fullmatch(ref))}
    rows = jobs_visible_to(user).in_bulk(set(keys.values()))
    return {ref: rows.get(keys.get(ref, 0)) for ref in refs}


def cancel_selection(user: User, refs: Iterable[str]) -> CancelSelection:
    """Sort the named jobs. Raises Refused(none_chosen, too_many)."""
    labels = list(dict.fromkeys(refs))
    if not labels:
        raise Refused(ErrorCode.NONE_CHOSEN, "Choose at least one job", "job")
    if len(labels) > MAX_JOBS:
        sentence = Message("Select at most %(n)s jobs at once", n=MAX_JOBS)
        raise Refused(ErrorCode.TOO_MANY_ITEMS, sentence, "job")
    may_cancel = cancel_permission(user)
    named = jobs_by_label(user, labels)
    rows = list({job.pk: job for job in named.values() if job}.values())
    ended = [job for job in rows if _has_ended(job)]
    left = [job for job in rows if not _has_ended(job)]
    return CancelSelection(
        cancellable=[job for job in left if may_cancel(job)],
        ended=ended,
        forbidden=[job for job in left if not may_cancel(job)],
        unknown_count=sum(job is None for job in named.values()),
    )


def _has_ended(job: Job) -> bool:
    status = JobStatus(job.status)
    return status in JOB_FINAL or status is JobStatus.STOPPING


def jobs_cancel(*, jobs: Iterable[Job], actor: str) -> int:
    """Cancel each in a transaction of its own; repeats are harmless. How many there were."""
    count = 0
    for job in jobs:
        job_cancel(job=job, actor=actor)
        count += 1
    return count
