"""The Results tab: how each attempt and replica ended, and the GPU-hours used."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from portal.allocations.selectors import usage_of
from portal.jobs.git_commits import attempt_commit
from portal.jobs.images import attempt_digest
from portal.jobs.models import Attempt, Job, Replica
from portal.usage.rounding import format_gpu_hours
from portal.web.job.diagnosis import ShownFinding, shown_finding
from portal.web.job.log_tab import LogEnd, log_end
from portal.web.wording.labels import image_digest_text
from portal.web.wording.messages import failure_text

LAST_LINES = 20


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """One attempt."""

    number: int
    is_preflight: bool
    """It has checked the network of its nodes, and not run the job."""
    outcome: str
    replicas: list[Replica]
    first_failed_rank: int | None
    sentence: str
    """The first failure."""
    code: str
    finding: ShownFinding | None
    image_digest: str
    """Which bytes ran; "" if that is not known."""
    code_commit: str
    """Of its code in a git repository; "" without one, or if that is not known."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """All attempts of a job."""

    attempts: list[AttemptResult]
    """The newest first."""
    log: LogEnd
    """Of the newest attempt."""
    gpu_hours: str


def job_result(job: Job, attempts: Sequence[Attempt]) -> JobResult:
    last = list(attempts[-1].replicas.all()) if attempts else []
    results = [_attempt_result(job, attempt) for attempt in reversed(attempts)]
    used = format_gpu_hours(usage_of([job]).get(job.pk, 0))
    return JobResult(results, log_end(last, LAST_LINES), used)


def _attempt_result(job: Job, attempt: Attempt) -> AttemptResult:
    failure: dict[str, Any] = attempt.first_failure or {}
    rank = failure.get("rank")
    return AttemptResult(
        number=attempt.number,
        is_preflight=attempt.is_preflight,
        outcome=attempt.outcome,
        replicas=list(attempt.replicas.all()),
        first_failed_rank=rank if isinstance(rank, int) else None,
        sentence=failure_text(failure),
        code=str(failure.get("code", "")),
        finding=shown_finding(job, attempt.finding),
        image_digest=image_digest_text(attempt_digest(attempt)),
        code_commit=attempt_commit(attempt),
    )
