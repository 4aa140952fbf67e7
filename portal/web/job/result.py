"""What became of a job: how each replica ended, what failed first, what was held."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from portal.jobs.models import Attempt, Job, Replica
from portal.jobs.selectors import gpu_hours, usage_of
from portal.web.logs.lines import MAX_REPLICAS, LogLine, tail
from portal.web.wording.messages import failure_text

LAST_LINES = 20


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """One attempt. `first`: the rank whose failure came first, `sentence`: what it was."""

    number: int
    outcome: str
    replicas: list[Replica]
    first_failed_rank: int | None
    sentence: str
    code: str


@dataclass(frozen=True, slots=True)
class JobResult:
    """The newest attempt first. `lines`: the last of its log."""

    attempts: list[AttemptResult]
    lines: list[LogLine]
    gpu_hours: Decimal


def job_result(job: Job, attempts: Sequence[Attempt]) -> JobResult:
    """One query besides those of the page."""
    last = list(attempts[-1].replicas.all()) if attempts else []
    lines, _ = tail(last[:MAX_REPLICAS], LAST_LINES)
    ended = [_ended(attempt) for attempt in reversed(attempts)]
    return JobResult(ended, lines, gpu_hours(usage_of([job]).get(job.pk, 0)))


def _ended(attempt: Attempt) -> AttemptResult:
    failure: dict[str, Any] = attempt.first_failure or {}
    rank = failure.get("rank")
    return AttemptResult(
        number=attempt.number,
        outcome=attempt.outcome,
        replicas=list(attempt.replicas.all()),
        first_failed_rank=rank if isinstance(rank, int) else None,
        sentence=failure_text(failure),
        code=str(failure.get("code", "")),
    )
