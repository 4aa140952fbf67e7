"""What people do with a job once it exists. What its replicas make of it is in `lifecycle`."""

from django.db import transaction
from django.utils import timezone

from agents.contract.message import Message
from portal.audit.transitions import Transitions, advance
from portal.jobs.lifecycle import job_stop
from portal.jobs.models import Job, StopReason
from portal.jobs.querysets import JobQuerySet
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


def jobs_cancel_waiting(*, jobs: JobQuerySet[Job], actor: str) -> int:
    """Cancel those of these that wait, in one transaction and a fixed number of statements. How
    many there were."""
    with transaction.atomic():
        rows = jobs.waiting().lock_rows()
        message, now = Message("cancelled by %(user)s", user=actor), timezone.now()
        transitions = Transitions()
        for job in rows:
            transitions.advance(
                job,
                JobStatus.CANCELLED,
                actor=actor,
                code=StopReason.CANCELLED,
                message=message,
                stop_reason=StopReason.CANCELLED,
                finished_at=now,
                position=None,
                estimate=None,
            )
        transitions.write()
        Job.objects.filter(pk__in=[job.pk for job in rows]).update(reason=None)
        for job in rows:
            ring(f"job:{job.pk}")
        if rows:
            ring_plan()
    return len(rows)
