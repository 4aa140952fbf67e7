"""Stops a running job so that another can start."""

from django.db import transaction

from agents.contract.message import Message
from portal.jobs.lifecycle import job_stop
from portal.jobs.models import Job, StopReason
from portal.live.bell import ring
from scheduler.core.model.decisions import Preemption, PreemptionCause
from scheduler.core.model.states import JobStatus

# Read by the people of the stopped job. They do not name the other job: it may be a project's
# that these people may not see.
CAUSES = {
    PreemptionCause.PRIORITY: Message("stopped for a job of higher priority"),
    PreemptionCause.RECLAIM: Message(
        "stopped because the project that lent the quota reclaimed it"
    ),
    PreemptionCause.ORDER: Message("stopped for a job ahead of it in the queue"),
    PreemptionCause.QUOTA: Message("stopped for more urgent work that needs the same quota"),
    PreemptionCause.MOVE: Message("stopped to restart elsewhere, so that another job fits"),
}


def preemption_commit(preemption: Preemption) -> bool:
    """Begin to stop a job, with its grace period; it queues again. False if the job has ended, is
    stopping already, or is not preemptible."""
    with transaction.atomic():
        allocated = Job.objects.allocated().exclude(status=JobStatus.STOPPING)
        rows = allocated.filter(pk=preemption.job, preemptible=True).lock_rows()
        for job in rows:
            cause = CAUSES[preemption.cause]
            message = Message("%(why)s; it is queued again automatically", why=cause)
            job_stop(job=job, stop_reason=StopReason.PREEMPTED, message=message)
            ring(f"job:{job.pk}")
            ring("cluster")
        return bool(rows)
