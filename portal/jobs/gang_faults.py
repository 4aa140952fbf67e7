"""A gang is stopped because the portal has found one of its ranks at fault."""

from agents.contract.message import Message
from portal.jobs.failure_causes import GangFailure
from portal.jobs.first_failures import imposed_failure
from portal.jobs.lifecycle import job_stop
from portal.jobs.models import Attempt, Job, Replica, StopReason
from portal.live.bell import ring


def faulty_gang_stop(*, job: Job, rank: Replica, code: GangFailure, message: Message) -> None:
    """`job` is locked, and has the attempt of `rank` open. It is tried again if a retry for
    infrastructure is left."""
    failure = imposed_failure(rank=rank.rank, status=rank.status, code=code, message=message)
    Attempt.objects.filter(pk=rank.attempt_id).update(first_failure=failure)
    job_stop(job=job, stop_reason=StopReason.FAILED, message=message)
    ring(f"job:{job.pk}")
