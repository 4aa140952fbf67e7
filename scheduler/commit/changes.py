"""The parts of a plan beside its placements, each in short transactions that check again: merges,
preemptions, reservations, and what people read of them."""

from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from agents.contract.phrase import Phrase
from portal.allocations.services import idle_slices
from portal.audit.transitions import advance
from portal.database.locks import lock_rows
from portal.inventory.models import Gpu
from portal.jobs.lifecycle import job_stop
from portal.jobs.models import Job, StopReason
from portal.live.bell import ring
from portal.planning.alternatives import with_alternatives_of
from scheduler.core.model.decisions import Deferral, Merge, Preemption, PreemptionCause, Reservation
from scheduler.core.model.states import JOB_ALLOCATED, JobStatus, SliceStatus

BATCH_SIZE, MOST_BELLS = 500, 1_000

# What the victim's people read. They are not told for whom: it may be another project's.
WHY_PREEMPTED = {
    PreemptionCause.PRIORITY: Phrase("stopped for a job of higher priority"),
    PreemptionCause.RECLAIM: Phrase("stopped because who lent the quota wants it back"),
    PreemptionCause.ORDER: Phrase("stopped for a job whose turn is earlier"),
    PreemptionCause.MOVE: Phrase("stopped to start again elsewhere, so that another job fits"),
}


def merge_commit(merge: Merge) -> bool:
    """Begin to delete idle slices, all of them or none. Their places free up when they are gone."""
    with transaction.atomic():
        gpu = next(iter(lock_rows(Gpu.objects.filter(pk=merge.gpu))), None)
        idle = idle_slices(list(merge.slices))
        if gpu is None or gpu.pinned or len(idle) != len(merge.slices):
            return False
        for row in idle:
            why = merge.sentence or Phrase("for job %(job)s", job=merge.for_job)
            advance(row, SliceStatus.DELETING, code="merge", sentence=why)
        Gpu.objects.filter(pk=gpu.pk).update(settles_at=settles_at())
        ring("cluster")
        return True


def settles_at() -> datetime:
    """Until when a GPU that is partitioned now keeps its idle slices."""
    return timezone.now() + timedelta(seconds=settings.PLATFORM.partition_dwell_seconds)


def preempt_commit(preempt: Preemption) -> bool:
    """Begin to stop a job, with its grace, that then queues again. False when it ended, stops
    already, or may not be stopped."""
    with transaction.atomic():
        job = next(iter(lock_rows(Job.objects.filter(pk=preempt.job))), None)
        if job is None or not job.preemptible:
            return False
        status = JobStatus(job.status)
        if status not in JOB_ALLOCATED or status is JobStatus.STOPPING:
            return False
        sentence = Phrase("%(why)s; it queues again by itself", why=WHY_PREEMPTED[preempt.cause])
        job_stop(job=job, stop_reason=StopReason.PREEMPTED, sentence=sentence)
        ring(f"job:{job.pk}")
        ring("cluster")
        return True


def bypassed_count(jobs: tuple[str, ...]) -> None:
    """One more time that a later job started before each of these."""
    Job.objects.filter(pk__in=jobs).update(bypassed=F("bypassed") + 1)


def reservations_write(reservations: tuple[Reservation, ...]) -> None:
    """Write from when each job has its places for sure; a job without one loses what it had."""
    told = {int(r.job): datetime.fromtimestamp(r.starts_at, UTC) for r in reservations}
    rows = Job.objects.filter(status=JobStatus.QUEUED)
    known = rows.filter(Q(pk__in=told) | Q(reserved_at__isnull=False))
    for pk, reserved_at in known.values_list("pk", "reserved_at"):
        if told.get(pk) != reserved_at:
            rows.filter(pk=pk).update(reserved_at=told.get(pk))
            ring(f"job:{pk}")


def deferrals_write(holds: tuple[Deferral, ...]) -> None:
    """Write each waiting job's reason and position where they changed, many in one query.

    Bells ring for the first ones: a page far back in a long queue asks by itself."""
    rows = Job.objects.filter(status=JobStatus.QUEUED)
    told = rows.filter(reason__isnull=False).values_list("pk", "reason", "position")
    known = {pk: (reason, position) for pk, reason, position in told}
    changed = [
        Job(pk=int(hold.job), reason=reason, position=hold.position)
        for hold in holds
        for old, position in (known.get(int(hold.job), (None, None)),)
        for reason in (with_alternatives_of(hold.reason.as_dict(), old),)
        if (old, position) != (reason, hold.position)
    ]
    rows.bulk_update(changed, ["reason", "position"], batch_size=BATCH_SIZE)
    for job in changed[:MOST_BELLS]:
        ring(f"job:{job.pk}")
