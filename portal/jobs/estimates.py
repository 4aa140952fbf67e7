"""When a job was expected to start, and when it did: what estimates are worth is read here."""

from datetime import UTC, datetime

from portal.jobs.models import Job, StartEstimate
from scheduler.core.decisions import Estimate


def estimate_record(*, job: Job, estimate: Estimate, asked_at: datetime) -> StartEstimate:
    """Keep one question and its answer; the committer fills in when the job started."""
    times = (estimate.optimistic, estimate.expected, estimate.pessimistic)
    optimistic, expected, pessimistic = (datetime.fromtimestamp(t, UTC) for t in times)
    return StartEstimate.objects.create(
        job=job,
        asked_at=asked_at,
        optimistic=optimistic,
        expected=expected,
        pessimistic=pessimistic,
        basis=estimate.basis[:200],
    )
