"""Applies a plan job by job, each in one short transaction that checks again under row locks.

A job whose world changed since the snapshot is left for the next pass. The database's own guards
stand behind this: a bug here becomes an IntegrityError, never two jobs on one device.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import structlog
from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils import timezone

from agents.contract.documents import GpuMode, SliceKind
from portal.accounts.models import Project
from portal.audit.transitions import advance
from portal.duties.locks import locked
from portal.inventory.models import Gpu, Node, Slice, SlotClaim
from portal.jobs.models import Allocation, Attempt, Job, Replica, Wish
from portal.jobs.release import idle_slices
from portal.jobs.snapshot import cluster_snapshot, waiting_job
from portal.live.bell import ring
from portal.quotas.models import Quota, quotas_of
from scheduler.core.decisions import Hold, Merge, Place, Plan, SlicePlace
from scheduler.core.fits import fits
from scheduler.core.states import JobStatus, SliceStatus
from scheduler.core.values import WaitingJob

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of a plan: placements that took, those that the world had overtaken, and the
    nodes whose desired state is another one now."""

    placed: int
    stale: int
    nodes: frozenset[UUID]


def commit(plan: Plan) -> Committed:
    """Apply a whole plan: placements first, then merges of idle slices, then reasons of holds."""
    placed = [place for place in plan.places if _place_or_leave(place)]
    merged = [merge for merge in plan.merges if merge_commit(merge)]
    holds_write(plan.holds)
    nodes = {UUID(replica.node) for place in placed for replica in place.replicas}
    nodes |= set(Gpu.objects.filter(pk__in=[m.gpu for m in merged]).values_list("node", flat=True))
    return Committed(len(placed), len(plan.places) - len(placed), frozenset(nodes))


def _place_or_leave(place: Place) -> bool:
    try:
        return place_commit(place)
    except IntegrityError as guard:
        log.warning("placement_refused_by_database", job=place.job, guard=str(guard))
        return False


def place_commit(place: Place) -> bool:
    """Give a whole gang its devices, or nothing. False when the world changed meanwhile."""
    with transaction.atomic():
        waiting = Job.objects.filter(pk=place.job, status=JobStatus.QUEUED).first()
        if waiting is None:
            return False
        quotas = locked(quotas_of(waiting.project_id, waiting.owner_id))
        nodes = locked(Node.objects.filter(pk__in={r.node for r in place.replicas}))
        gpus = {str(g.pk): g for g in locked(Gpu.objects.filter(pk__in=_gpu_ids(place)))}
        slices = {str(s.pk): s for s in locked(Slice.objects.filter(pk__in=_slice_ids(place)))}
        job = _locked_job(place)
        if job is None:
            return False
        asked = waiting_job(job)
        if _misfit(place, asked, [node.pk for node in nodes], job.label):
            return False
        # The clock is read after the GPUs are locked: holders' intervals never overlap.
        now = timezone.now()
        _units_take(quotas, sum(d.units for r in place.replicas for d in r.devices))
        _attempt_create(place, job, asked.processes, gpus, slices, now)
        advance(job, JobStatus.PLACED, sentence=place.sentence, reason=None, position=None)
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


def _units_take(quotas: list[Quota], units: int) -> None:
    """Count the units; the CHECK constraint refuses what fits() should have refused."""
    for quota in quotas:
        Quota.objects.filter(pk=quota.pk).update(used_units=F("used_units") + units)


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
        for device in replica.devices:
            held = slices.get(device.slice)
            held = held or _slice_create(gpus[device.gpu], device, job.project, processes)
            Allocation.objects.create(
                replica=row,
                slice=held,
                project=job.project,
                user=job.owner,
                units=device.units,
                reserved_at=now,
            )


def _slice_create(gpu: Gpu, device: SlicePlace, project: Project, processes: int) -> Slice:
    """A new slice with its claims. An empty GPU takes the mode that its first slice needs."""
    if device.kind is SliceKind.MPS:
        return _share_create(gpu, device, project, processes)
    mode = GpuMode.MIG if device.kind is SliceKind.MIG else GpuMode.WHOLE
    if gpu.desired_mode != mode:
        gpu.desired_mode = mode
        gpu.save(update_fields=["desired_mode"])
    row = Slice.objects.create(
        gpu=gpu,
        kind=device.kind,
        profile=device.profile,
        start=device.start,
        size=device.size,
        memory_mib=device.memory_mib,
        units=device.units,
    )
    slots = range(device.start, device.start + device.size)
    SlotClaim.objects.bulk_create([SlotClaim(gpu=gpu, slot=s, slice=row) for s in slots])
    return row


def _share_create(gpu: Gpu, device: SlicePlace, project: Project, clients: int) -> Slice:
    """A share claims no memory slices: the GPU counts what its shares take, and for whom.

    Raises IntegrityError where another project, a slice or a whole-GPU job is on it."""
    free = Gpu.objects.filter(Q(shared_by=None) | Q(shared_by=project), pk=gpu.pk, claims=None)
    taken = free.update(
        desired_mode=GpuMode.MPS,
        shared_by=project,
        shared_threads=F("shared_threads") + device.threads,
        shared_memory_mib=F("shared_memory_mib") + device.memory_mib,
    )
    if not taken:
        raise IntegrityError(f"{gpu} is not free for a share of {project.slug}")
    return Slice.objects.create(
        gpu=gpu,
        kind=device.kind,
        start=device.start,
        size=device.size,
        memory_mib=device.memory_mib,
        units=device.units,
        threads=device.threads,
        clients=clients,
    )


def merge_commit(merge: Merge) -> bool:
    """Begin to delete idle slices, all of them or none. Their places free up when they are gone."""
    with transaction.atomic():
        gpu = next(iter(locked(Gpu.objects.filter(pk=merge.gpu))), None)
        idle = idle_slices(list(merge.slices))
        if gpu is None or len(idle) != len(merge.slices):
            return False
        for row in idle:
            advance(row, SliceStatus.DELETING, code="merge", sentence=f"for job {merge.for_job}")
        ring("cluster")
        return True


def holds_write(holds: tuple[Hold, ...]) -> None:
    """Write each waiting job's reason and position where they changed. One query reads them all."""
    rows = Job.objects.filter(pk__in=[h.job for h in holds], status=JobStatus.QUEUED)
    known = {row.pk: (row.reason, row.position) for row in rows.only("reason", "position")}
    for hold in holds:
        told = (hold.reason.as_dict(), hold.position)
        if known.get(int(hold.job)) in (told, None):
            continue
        waiting = Job.objects.filter(pk=hold.job, status=JobStatus.QUEUED)
        waiting.update(reason=told[0], position=told[1])
        ring(f"job:{hold.job}")


def _gpu_ids(place: Place) -> set[str]:
    return {device.gpu for replica in place.replicas for device in replica.devices}


def _slice_ids(place: Place) -> set[str]:
    return {d.slice for r in place.replicas for d in r.devices if d.slice}
