"""Jobs that failed, with the log of each replica, as rows."""

from django.utils import timezone

from portal.jobs.models import Attempt, Job, Replica
from scheduler.core.model.states import JobStatus, ReplicaStatus
from tests.support.logs import write_log
from tests.support.rows import a_job


def a_failed_job(
    user, home, log=b"", *, exit_code=1, status=ReplicaStatus.EXITED, code="", **fields
) -> Job:
    """It ended just now; rank 0 failed first and wrote `log`."""
    job = a_job(user, home, **fields)
    now = timezone.now()
    failure = {"rank": 0, "status": str(status), "exit_code": exit_code, "code": code}
    failure["sentence"] = f"rank 0 ended with exit code {exit_code}"
    attempt = Attempt.objects.create(
        job=job, number=1, created_at=now, ended_at=now, outcome="failed", first_failure=failure
    )
    for rank in range(attempt.world):
        Replica.objects.create(
            attempt=attempt,
            rank=rank,
            status=status,
            exit_code=exit_code,
            code=code,
            ended_unasked=status == ReplicaStatus.EXITED and rank == 0,
            started_at=now,
            finished_at=now,
        )
    Job.objects.filter(pk=job.pk).update(
        status=JobStatus.FAILED,
        stop_reason="failed",
        started_at=now,
        finished_at=now,
        reason=None,
        position=None,
    )
    if log:
        write_failed_log(job, log)
    job.refresh_from_db()
    return job


def write_failed_log(job: Job, log: bytes, *, rank: int = 0) -> None:
    replica = Replica.objects.select_related("attempt__job").get(attempt__job=job, rank=rank)
    write_log(replica, 0, log)
    Replica.objects.filter(pk=replica.pk).update(log_bytes=len(log))
