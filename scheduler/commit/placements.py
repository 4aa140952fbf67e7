"""Applies a plan job by job, each in one short transaction that checks again under row locks.

A job whose world changed since the snapshot is left for the next pass. The database's own guards
stand behind this: a bug here becomes an IntegrityError, never two jobs on one device.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import structlog
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from portal.audit.transitions import advance
from portal.database.locks import lock_rows
from portal.inventory.boards import quota_model_names
from portal.inventory.models import Gpu, Node, Slice
from portal.jobs.models import Allocation, Attempt, DesiredState, Job, Replica, StartEstimate
from portal.live.bell import ring
from portal.planning.requests import waiting_job_from_row
from portal.planning.snapshot import cluster_snapshot
from portal.quotas.models import Quota, quotas_of
from scheduler.commit.changes import (
    bypassed_count,
    deferrals_write,
    merge_commit,
    preempt_commit,
    reservations_write,
)
from scheduler.commit.partitions import carve_commit, slice_create
from scheduler.core.model.decisions import Carve, JobPlacement, Plan
from scheduler.core.model.snapshot import WaitingJob
from scheduler.core.model.states import JobStatus
from scheduler.core.placement.legality import illegal_reason

log = structlog.get_logger(__name__)

OnNodesChanged = Callable[[frozenset[UUID]], object]
# Nodes hear of so many placements at a time.
NOTIFY_AFTER = 16


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of a plan: placements that took, those that the world had overtaken, and the
    nodes whose desired state is another one now."""

    placed: int
    stale: int
    nodes: frozenset[UUID]


def commit(plan: Plan, on_nodes_changed: OnNodesChanged = lambda nodes: None) -> Committed:
    """Apply a whole plan: placements first, then merges and carves of idle slices, preemptions, and
    what people read: reservations and reasons of holds.

    `changed` is told of nodes as soon as they should be something else: those of placements do not
    wait for the rest of the plan, nor the first placements of many for the last ones."""
    placed: list[JobPlacement] = []
    for some in _batches(plan.placements):
        took = [place for place in some if _place_or_leave(place, plan)]
        placed += took
        on_nodes_changed(_nodes_of(took))
    if placed and placed[-1] is not plan.placements[-1]:
        bypassed_count(plan.bypassed)
    nodes = _rest_commit(plan)
    on_nodes_changed(nodes)
    return Committed(len(placed), len(plan.placements) - len(placed), nodes | _nodes_of(placed))


def _batches(places: tuple[JobPlacement, ...]) -> Iterable[tuple[JobPlacement, ...]]:
    return (places[at : at + NOTIFY_AFTER] for at in range(0, len(places), NOTIFY_AFTER))


def _nodes_of(placed: Iterable[JobPlacement]) -> frozenset[UUID]:
    return frozenset(UUID(replica.node) for place in placed for replica in place.replicas)


def _rest_commit(plan: Plan) -> frozenset[UUID]:
    """All but the placements. The nodes that it changed."""
    merged = [merge for merge in plan.merges if merge_commit(merge)]
    carved = [carve for carve in plan.carves if _carve_or_leave(carve)]
    for preempt in plan.preemptions:
        preempt_commit(preempt)
    reservations_write(plan.reservations)
    deferrals_write(plan.deferrals)
    gpus = [merge.gpu for merge in merged] + [carve.gpu for carve in carved]
    return frozenset(Gpu.objects.filter(pk__in=gpus).values_list("node", flat=True))


def _place_or_leave(place: JobPlacement, plan: Plan) -> bool:
    try:
        return place_commit(place, plan.bypassed if place is plan.placements[-1] else ())
    except IntegrityError as guard:
        log.warning("placement_refused_by_database", job=place.job, guard=str(guard))
        return False


def _carve_or_leave(carve: Carve) -> bool:
    try:
        return carve_commit(carve)
    except IntegrityError as guard:
        log.warning("carving_refused_by_database", gpu=carve.gpu, guard=str(guard))
        return False


def place_commit(place: JobPlacement, bypassed: tuple[str, ...] = ()) -> bool:
    """Give a whole gang its devices, or nothing. False when the world changed meanwhile.

    `bypassed` stands with the last placement of a plan: a plan that is committed again after a
    crash does not count it twice."""
    with transaction.atomic():
        rows = Job.objects.filter(pk=place.job, status=JobStatus.QUEUED)
        whose = rows.values_list("project_id", "owner_id").first()
        if whose is None:
            return False
        quotas = lock_rows(quotas_of(*whose))
        nodes = lock_rows(Node.objects.filter(pk__in={r.node for r in place.replicas}))
        gpus = {str(g.pk): g for g in lock_rows(Gpu.objects.filter(pk__in=_gpu_ids(place)))}
        slices = {str(s.pk): s for s in lock_rows(Slice.objects.filter(pk__in=_slice_ids(place)))}
        job = _locked_job(place)
        if job is None or job.held_by:
            return False
        asked = waiting_job_from_row(job)
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
        if job.reason is not None or job.estimate is not None:
            Job.objects.filter(pk=job.pk).update(reason=None, estimate=None)
        advance(job, JobStatus.PLACED, message=place.message, position=None, reserved_at=None)
        ring(f"job:{job.pk}")
        ring("cluster")
        return True


def _locked_job(place: JobPlacement) -> Job | None:
    rows = Job.objects.filter(pk=place.job, status=JobStatus.QUEUED)
    return next(iter(lock_rows(rows.select_related("project", "owner"))), None)


def _misfit(place: JobPlacement, asked: WaitingJob, nodes: list[UUID], label: str) -> bool:
    snapshot = cluster_snapshot(now=timezone.now(), nodes=nodes)
    reason = illegal_reason(place, asked, snapshot)
    if reason is not None:
        log.info("placement_overtaken", job=label, code=str(reason.code), why=reason.sentence)
    return reason is not None


def _units_by_model(place: JobPlacement, gpus: dict[str, Gpu]) -> dict[str, int]:
    """Units by what a quota may call the GPUs; under "" of all together."""
    units: dict[str, int] = defaultdict(int)
    for device in (d for replica in place.replicas for d in replica.devices):
        for name in quota_model_names(gpus[device.gpu]):
            units[name] += device.units
    return units


def _units_take(quotas: list[Quota], units: dict[str, int]) -> None:
    """Count the units; the CHECK constraint refuses what fits() should have refused."""
    for quota in quotas:
        if taken := units.get(quota.model, 0):
            Quota.objects.filter(pk=quota.pk).update(used_units=F("used_units") + taken)


def _attempt_create(
    place: JobPlacement,
    job: Job,
    processes: int,
    gpus: dict[str, Gpu],
    slices: dict[str, Slice],
    now: datetime,
) -> None:
    number = job.attempts.count() + 1
    attempt = Attempt.objects.create(job=job, number=number, created_at=now)
    # A ganDesiredState one has nobody to wait for: its node DesiredStatets it as soon as it is ready.
    wish = DesiredState.RUN if len(place.replicas) == 1 else DesiredState.PREPARE
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


def _gpu_ids(place: JobPlacement) -> set[str]:
    return {device.gpu for replica in place.replicas for device in replica.devices}


def _slice_ids(place: JobPlacement) -> set[str]:
    return {d.slice for r in place.replicas for d in r.devices if d.slice}
