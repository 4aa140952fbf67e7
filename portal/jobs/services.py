"""What people do with a job once it exists. What its replicas make of it is in `lifecycle`."""

from django.db import transaction
from django.utils import timezone

from agents.contract.message import Message
from portal.audit.transitions import advance
from portal.jobs.lifecycle import job_stop
from portal.jobs.models import Job, StopReason
from portal.live.bell import ring, ring_plan
from scheduler.core.model.states import JOB_FINAL, JOB_WAITING, JobStatus


def job_cancel(*, job: Job, actor: str) -> Job:
    """End a job: at once while it waits, else through `stopping`. Repeats are harmless."""
    with transaction.atomic():
        (job,) = Job.objects.filter(pk=job.pk).lock_rows()
        status = JobStatus(job.status)
        if status in JOB_WAITING:
            advance(
                job,
                JobStatus.CANCELLED,
                actor=actor,
                code=StopReason.CANCELLED,
                message=Message("cancelled by %(user)s", user=actor),
                stop_reason=StopReason.CANCELLED,
                finished_at=timezone.now(),
                position=None,
                estimate=None,
            )
            Job.objects.filter(pk=job.pk).update(reason=None)
            job.reason = None
            ring_plan()
        elif status not in JOB_FINAL:
            job_stop(
                job=job,
                stop_reason=StopReason.CANCELLED,
                message=Message("cancelled by %(user)s", user=actor),
                actor=actor,
            )
        ring(f"job:{job.pk}")
    return job
