"""Several jobs at once: which of those that somebody chose they may end, and ending them."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from agents.contract.phrase import Phrase
from portal.accounts.models import Membership, Role, User
from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.selectors import LABEL, jobs_visible_to
from portal.jobs.services import job_cancel
from scheduler.core.model.states import JOB_FINAL, JobStatus

MAX_JOBS = 200


@dataclass(frozen=True, slots=True)
class CancelSelection:
    """Of the jobs that were named: `may` be ended now; `over`: they end or have ended; `others`:
    seen, but somebody else's to end; `unknown`: how many are not there, or not to be seen."""

    cancellable: list[Job]
    ended: list[Job]
    forbidden: list[Job]
    unknown_count: int


def cancel_permission(user: User) -> Callable[[Job], bool]:
    """`selectors.may_cancel` for many jobs, in one query."""
    if user.is_platform_admin:
        return lambda job: True
    rows = Membership.objects.filter(user=user, role=Role.ADMIN)
    run = frozenset(rows.values_list("project_id", flat=True))
    return lambda job: job.owner_id == user.pk or job.project_id in run


def jobs_by_label(user: User, refs: Collection[str]) -> dict[str, Job | None]:
    """The jobs of these names ("J-12" or "12"), by name; None for one that is
    not there or not to be seen. One query."""
    keys = {ref: int(match[1]) for ref in refs if (match := LABEL.fullmatch(ref))}
    rows = jobs_visible_to(user).in_bulk(set(keys.values()))
    return {ref: rows.get(keys.get(ref, 0)) for ref in refs}


def cancel_selection(user: User, refs: Iterable[str]) -> CancelSelection:
    """What the user may end of the jobs named. Raises Refused(none_chosen, too_many)."""
    wanted = list(dict.fromkeys(refs))
    if not wanted:
        raise Refused("none_chosen", "Choose at least one job", "job")
    if len(wanted) > MAX_JOBS:
        sentence = Phrase("Select at most %(n)s jobs at once", n=MAX_JOBS)
        raise Refused("too_many", sentence, "job")
    right = cancel_permission(user)
    named = jobs_by_label(user, wanted)
    rows = list({job.pk: job for job in named.values() if job}.values())
    over = [job for job in rows if _is_over(job)]
    left = [job for job in rows if not _is_over(job)]
    return CancelSelection(
        cancellable=[job for job in left if right(job)],
        ended=over,
        forbidden=[job for job in left if not right(job)],
        unknown_count=sum(job is None for job in named.values()),
    )


def _is_over(job: Job) -> bool:
    status = JobStatus(job.status)
    return status in JOB_FINAL or status is JobStatus.STOPPING


def jobs_cancel(*, jobs: Iterable[Job], actor: str) -> int:
    """End each of them, in a transaction of its own. How many there were; repeats are harmless."""
    ended = 0
    for job in jobs:
        job_cancel(job=job, actor=actor)
        ended += 1
    return ended
