"""When the wait of a job ends at the latest, and who ends it: what pages, REST and the command line
tell. The planner's bounds are stored in the job's reason; who may approve is read here."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agents.contract.message import Message
from agents.contract.moments import write_moment
from portal.jobs.models import Job
from portal.planning.reason_additions import BOUND
from portal.planning.requests import epoch_seconds
from scheduler.core.explain.bounds import WaitBound
from scheduler.core.model.message_templates import make_message
from scheduler.core.model.states import JobStatus


@dataclass(frozen=True, slots=True)
class JobWaitBound:
    """`sentence` is in English; `stored` has what a reader's language is made of."""

    at: datetime | None
    """None if no time can be told."""
    is_certain: bool
    """False: it may be later than `at`, as the sentence says."""
    since: datetime | None
    """Since when somebody has to decide; None if the wait is for no person."""
    sentence: str
    stored: dict[str, Any]
    jobs: tuple[str, ...] = ()
    """Labels of the jobs that end then."""


def wait_bound(
    job: Job, approvers: Sequence[str] = (), *, names_visible: bool = True
) -> JobWaitBound | None:
    """None for a job that does not wait, or whose reason says all there is. `approvers`: names of
    those who may approve it, where the reader is shown them. Without `names_visible`, for a reader
    outside its project: only what names neither jobs nor projects."""
    match JobStatus(job.status):
        case JobStatus.AWAITING_APPROVAL if names_visible:
            return _approval(job, approvers)
        case JobStatus.QUEUED:
            stored = (job.reason or {}).get(BOUND) if names_visible else None
            return _stored(stored) if stored else _reserved(job)
    return None


def _approval(job: Job, approvers: Sequence[str]) -> JobWaitBound:
    since = write_moment(job.submitted_at)
    message = make_message("bound.approval", project=job.project.slug, since=since)
    if approvers:
        message = make_message("bound.approval_by", names=_names(approvers), since=since)
    stored = {"sentence": message.text, "said": message.as_dict()}
    return JobWaitBound(None, False, job.submitted_at, message.text, stored)


def _names(names: Sequence[str]) -> Message | str:
    return Message("clause.or", first=list(names[:-1]), then=names[-1]) if names[1:] else names[0]


def _reserved(job: Job) -> JobWaitBound | None:
    """A reservation is written with the pass, its bound a moment later."""
    if job.reserved_at is None:
        return None
    return _stored(WaitBound.by_time(epoch_seconds(job.reserved_at), "bound.reserved").as_dict())


def _stored(bound: dict[str, Any]) -> JobWaitBound:
    at = datetime.fromtimestamp(bound["at"], UTC) if bound["at"] is not None else None
    jobs = tuple(f"J-{job}" for job in bound["jobs"])
    return JobWaitBound(at, bound["is_certain"], None, bound["sentence"], bound, jobs)
