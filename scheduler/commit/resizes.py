"""Stops a running gang so that it starts again with more replicas."""

from django.db import transaction

from agents.contract.message import Message
from portal.jobs.lifecycle import job_stop
from portal.jobs.models import Attempt, Job, StopReason
from portal.live.bell import ring
from scheduler.core.model.decisions import Resize
from scheduler.core.model.states import JobStatus


def resize_commit(resize: Resize) -> bool:
    """Begin to stop the gang, with its grace period; it queues again. False if it does not run any
    more, or not with that many replicas."""
    with transaction.atomic():
        rows = Job.objects.filter(pk=resize.job, status=JobStatus.RUNNING).lock_rows()
        as_planned = Attempt.objects.open().filter(
            job__in=[job.pk for job in rows],
            replica_count=resize.replicas,
            saved_at__isnull=False,
        )
        if not as_planned.exists():
            return False
        for job in rows:
            message = Message(
                "stopped to start again with more than its %(replicas)s replicas: devices for "
                "%(size)s are free, and nobody waits for them",
                replicas=resize.replicas,
                size=resize.size,
            )
            job_stop(job=job, stop_reason=StopReason.RESIZED, message=message)
            ring(f"job:{job.pk}")
            ring("cluster")
        return True
