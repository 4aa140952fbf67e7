"""How much of a running job's time limit is over, and how long it may still run."""

from dataclasses import dataclass
from datetime import datetime

from portal.jobs.models import Job
from portal.web.wording.labels import duration
from scheduler.core.model.states import JobStatus

ENDS_SOON_SECONDS = 30 * 60


@dataclass(frozen=True, slots=True)
class TimeGauge:
    """Durations are ready to print."""

    elapsed: str
    limit: str
    left: str
    percent: int
    """Of the time limit that is over."""
    ends_at: datetime
    ends_soon: bool
    """Less than half an hour and a quarter of its limit are left."""


def time_gauge(job: Job, now: datetime) -> TimeGauge | None:
    """None for a job that does not run."""
    if JobStatus(job.status) is not JobStatus.RUNNING or job.deadline_at is None:
        return None
    left = max(0, int((job.deadline_at - now).total_seconds()))
    limit = max(1, job.time_limit_seconds)
    elapsed = min(limit, max(0, limit - left))
    return TimeGauge(
        elapsed=duration(elapsed),
        limit=duration(limit),
        left=duration(left),
        percent=elapsed * 100 // limit,
        ends_at=job.deadline_at,
        ends_soon=left <= ENDS_SOON_SECONDS and left * 4 <= limit,
    )
