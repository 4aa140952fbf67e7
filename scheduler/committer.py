"""Applies a plan job by job, each in one short transaction that checks again under row locks.

A job whose world changed since the snapshot is left for the next pass. The database's own guards
stand behind this: a bug here becomes an IntegrityError, never two jobs on one device.
"""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import structlog
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from portal.audit.transitions import advance
from portal.duties.locks import locked
from portal.inventory.boards import quota_names
from portal.inventory.models import Gpu, Node, Slice
from portal.jobs.models import Allocation, Attempt, Job, Replica, StartEstimate, Wish
from portal.jobs.snapshot import cluster_snapshot, waiting_job
from portal.live.bell import ring
from portal.quotas.models import Quota, quotas_of
from scheduler.changes import (
    bypassed_count,
    holds_write,
    merge_commit,
    preempt_commit,
    reservations_write,
)
from scheduler.core.decisions import Carve, Place, Plan
from scheduler.core.placement.fits import fits
from scheduler.core.states import JobStatus
from scheduler.core.values import WaitingJob
from scheduler.slices import carve_commit, slice_create

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of a plan: placements that took, those that the world had overtaken, and the
    nodes whose desired state is another one now."""

    placed: int
    stale: int
    nodes: frozenset[UUID]


def commit(plan: Plan) -> Committed:
    """Apply a whole plan: placements first, then merges and carves of idle slices, preemptions, and
    what people read: reservations and reasons of holds."""
    last = plan.places[-1] if plan.places else None
    placed = [
        place
        for place in plan.places
        if _place_or_leave(place, plan.bypassed if place is last else ())
    ]
    if placed and placed[-1] is not last:
        bypassed_count(plan.bypassed)
    merged = [merge for merge in plan.merges if merge_commit(merge)]
    carved = [carve for carve in plan.carves if _carve_or_leave(carve)]
    for preempt in plan.preempts:
        preempt_commit(preempt)
    reservations_write(plan.reservations)
    holds_write(plan.holds)
    nodes = {UUID(replica.node) for place in placed for replica in place.replicas}
    changed = [merge.gpu for merge in merged] + [carve.gpu for carve in carved]
    nodes |= set(Gpu.objects.filter(pk__in=changed).values_list("node", flat=True))
    return Committed(len(placed), len(plan.places) - len(placed), frozenset(nodes))


def _place_or_leave(place: Place, bypassed: tuple[str, ...]) -> bool:
    try:
        return place_commit(place, bypassed)
    except IntegrityError as guard:
        log.warning("placement_refused_by_database", job=place.job, guard=str(guard))
        return False


def _carve_or_leave(carve: Carve) -> bool:
    try:
        return carve_commit(carve)
    except IntegrityError as guard:
        log.warning("carving_refused_by_database", gpu=carve.gpu, guard=str(guard))
        return False


def place_commit(place: Place, bypassed: tuple[str, ...] = ()) -> bool:
    """Give a whole gang its devices, or nothing. False when the world changed meanwhile.

    `bypassed` stands with the last placement of a plan: a plan that is committed again after a
    crash does not count it twice."""
    with transaction.atomic():
        waiting = Job.objects.filter(pk=place.job, status=JobStatus.QUEUED).first()
        if waiting is None:
            return False
        quotas = locked(quotas_of(waiting.project_id, waiting.owner_id))
        nodes = locked(Node.objects.filter(pk__in={r.node for r in place.replicas}))
        gpus = {str(g.pk): g for g in locked(Gpu.objects.filter(pk__in=_gpu_ids(place)))}
        slices = {str(s.pk): s for s in locked(Slice.objects.filter(pk__in=_slice_ids(place)))}
        job = _locked_job(place)
        if job is None or job.held_by:
            return False
        asked = waiting_job(job)
        # The clock is read after the GPUs are locked: holders' intervals never overlap.
        now = timezone.now()
        if asked.after or asked.begin_at > now.timestamp():
            return False
        if _misfit(place, asked, [node.pk for node in nodes], job.label):
            return False
        _units_take(quotas, _units_by_model(place, gpus))
        _attempt_create(place, job, asked.processes, gpus, slices, now)
        bypassed_count(bypassed)
        StartEstimate.objects.filter(job=job, started_at=None).update(started_at=now)
        Job.objects.filter(pk=job.pk).update(reason=None, estimate=None)
        advance(job, JobStatus.PLACED, sentence=place.sentence, position=None, reserved_at=None)
        ring(f"job:{job.pk}")
        ring("cluster")
        return True


def _locked_job(place: Place) -> Job | None:
    rows = Job.objects.filter(pk=place.job, status=JobStatus.QUEUED)
    return next(iter(locked(rows.select_related("project", "owner"))), None)


def _misfit(place: Place, asked: WaitingJob, nodes: list[UUID], label: str) -> bool:
    snapshot = cluster_snapshot(now=timezone.now(), nodes=nodes)
    reason = fits(place, asked, snapshot)
    if reason is not None:
        log.info("placement_overtaken", job=label, code=str(reason.code), why=reason.sentence)
    return reason is not None


def _units_by_model(place: Place, gpus: dict[str, Gpu]) -> dict[str, int]:
    """Units by what a quota may call the GPUs; under "" of all together."""
    units: dict[str, int] = defaultdict(int)
    for device in (d for replica in place.replicas for d in replica.devices):
        for name in quota_names(gpus[device.gpu]):
            units[name] += device.units
    return units


def _units_take(quotas: list[Quota], units: dict[str, int]) -> None:
    """Count the units; the CHECK constraint refuses what fits() should have refused."""
    for quota in quotas:
        if taken := units.get(quota.model, 0):
            Quota.objects.filter(pk=quota.pk).update(used_units=F("used_units") + taken)


def _attempt_create(
    place: Place,
    job: Job,
    processes: int,
    gpus: dict[str, Gpu],
    slices: dict[str, Slice],
    now: datetime,
) -> None:
    number = job.attempts.count() + 1
    attempt = Attempt.objects.create(job=job, number=number, created_at=now)
    # A gang of one has nobody to wait for: its node starts it as soon as it is ready.
    wish = Wish.RUN if len(place.replicas) == 1 else Wish.PREPARE
    for replica in place.replicas:
        row = Replica.objects.create(
            attempt=attempt, rank=replica.rank, node_id=replica.node, wish=wish
        )
        for index, device in enumerate(replica.devices):
            held = slices.get(device.slice)
            held = held or slice_create(gpus[device.gpu], device, job.project, processes)
            Allocation.objects.create(
                cpu_milli=0 if index else job.cpu_milli,
                memory_mib=0 if index else job.memory_mib,
                replica=row,
                slice=held,
                project=job.project,
                user=job.owner,
                units=device.units,
                reserved_at=now,
            )


def _gpu_ids(place: Place) -> set[str]:
    return {device.gpu for replica in place.replicas for device in replica.devices}


def _slice_ids(place: Place) -> set[str]:
    return {d.slice for r in place.replicas for d in r.devices if d.slice}
