"""Starts one job: locks the rows that its placement touches, checks it again, allocates."""

import logging
from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils import timezone

from portal.allocations.services import gang_allocate
from portal.audit.transitions import advance
from portal.inventory.models import Gpu, Node, Slice
from portal.jobs.models import Job, StartEstimate
from portal.live.bell import ring
from portal.planning.requests import waiting_job_from_row
from portal.planning.snapshot import cluster_snapshot
from portal.quotas.models import Quota
from scheduler.core.model.decisions import JobPlacement
from scheduler.core.model.states import JobStatus
from scheduler.core.placement.legality import illegal_reason
from scheduler.core.quota.holders import quota_models_of_gpus

log = logging.getLogger(__name__)


def placement_commit(placement: JobPlacement, bypassed: tuple[str, ...] = ()) -> bool:
    """Give a whole gang its devices, or nothing. False if the world changed meanwhile.

    `bypassed`: jobs that this placement, the last one of its plan, went before.
    """
    try:
        with transaction.atomic():
            return _commit(placement, bypassed)
    except IntegrityError as error:
        log.warning("the database refused the placement of job %s: %s", placement.job, error)
        return False


def _commit(placement: JobPlacement, bypassed: tuple[str, ...]) -> bool:
    devices = [device for replica in placement.replicas for device in replica.devices]
    queued = Job.objects.queued().filter(pk=placement.job)
    owner = queued.values_list("project_id", "owner_id").first()
    if owner is None:
        return False
    quotas = Quota.objects.applying_to(*owner).lock_rows()
    nodes = Node.objects.filter(pk__in={r.node for r in placement.replicas}).lock_rows()
    gpus = Gpu.objects.filter(pk__in={device.gpu for device in devices}).lock_rows()
    slices = Slice.objects.filter(pk__in={d.slice for d in devices if d.slice}).lock_rows()
    job = next(iter(queued.select_related("project", "owner").lock_rows()), None)
    if job is None or job.hold_owner:
        return False
    waiting = waiting_job_from_row(job)
    # Read after the GPUs are locked: the intervals of two allocations of one device never overlap.
    now = timezone.now()
    if waiting.after or waiting.begin_at > now.timestamp():
        return False
    snapshot = cluster_snapshot(now=now, nodes=[node.pk for node in nodes])
    if reason := illegal_reason(placement, waiting, snapshot):
        log.info("the placement of %s is stale: %s: %s", job.label, reason.code, reason.sentence)
        return False
    gang_allocate(
        job=job,
        replicas=placement.replicas,
        quotas=quotas,
        gpus=gpus,
        slices=slices,
        quota_models=quota_models_of_gpus(snapshot.nodes),
        processes=waiting.processes,
        at=now,
    )
    job_placed(job, placement, bypassed, now)
    return True


def job_placed(job: Job, placement: JobPlacement, bypassed: tuple[str, ...], now: datetime) -> None:
    """Advance a job, locked by the caller, that has its devices; what it waited for is no more."""
    Job.objects.filter(pk__in=bypassed).count_bypass()
    StartEstimate.objects.filter(job=job, started_at=None).update(started_at=now)
    if job.reason is not None or job.estimate is not None:
        Job.objects.filter(pk=job.pk).update(reason=None, estimate=None)
    advance(job, JobStatus.PLACED, message=placement.message, position=None, reserved_at=None)
    ring(f"job:{job.pk}")
    ring("cluster")
