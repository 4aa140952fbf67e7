"""Stops a running job so that another can start."""

from django.db import transaction

from agents.contract.phrase import Phrase
from portal.jobs.lifecycle import job_stop
from portal.jobs.models import Job, StopReason
from portal.live.bell import ring
from scheduler.core.model.decisions import Preemption, PreemptionCause
from scheduler.core.model.states import JobStatus

# Read by the people of the stopped job. They do not name the other job: it may be a project's
# that these people may not see.
SENTENCES = {
    PreemptionCause.PRIORITY: Phrase("stopped for a job of higher priority"),
    PreemptionCause.RECLAIM: Phrase("stopped because the project that lent the quota reclaimed it"),
    PreemptionCause.ORDER: Phrase("stopped for a job ahead of it in the queue"),
    PreemptionCause.MOVE: Phrase("stopped to restart elsewhere, so that another job fits"),
}


def preemption_commit(preemption: Preemption) -> bool:
    """Begin to stop a job, with its grace period; it queues again. False if the job has ended, is
    stopping already, or is not preemptible."""
    with transaction.atomic():
        allocated = Job.objects.allocated().exclude(status=JobStatus.STOPPING)
        rows = allocated.filter(pk=preemption.job, preemptible=True).lock_rows()
        for job in rows:
            cause = SENTENCES[preemption.cause]
            sentence = Phrase("%(why)s; it is queued again automatically", why=cause)
            job_stop(job=job, stop_reason=StopReason.PREEMPTED, sentence=sentence)
            ring(f"job:{job.pk}")
            ring("cluster")
        return bool(rows)
