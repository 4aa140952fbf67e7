"""Allocations: reserved for a gang, bound when its replicas run, released after they are gone.

A device is free only after its node has reported that the container is gone.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agents.contract.documents import SliceKind
from portal.allocations.models import Allocation
from portal.allocations.querysets import AllocationQuerySet
from portal.allocations.slices import slice_create
from portal.audit.transitions import advance
from portal.database.intervals import SECOND
from portal.inventory.boards import board_quota_models, quota_model_names
from portal.inventory.models import Gpu, Node, Slice
from portal.inventory.reports import slice_delete
from portal.jobs.models import Attempt, DesiredState, Job, Replica
from portal.quotas.models import Quota
from portal.quotas.services import quotas_return, quotas_take
from scheduler.core.model.decisions import ReplicaPlacement
from scheduler.core.model.states import AllocationStatus


def gang_allocate(
    *,
    job: Job,
    replicas: Iterable[ReplicaPlacement],
    quotas: Iterable[Quota],
    gpus: Iterable[Gpu],
    slices: Iterable[Slice],
    quota_models: Mapping[str, Iterable[str]],
    processes: int,
    at: datetime,
) -> Attempt:
    """Start an attempt: its replicas, their reserved devices, and the units taken from quotas.

    All rows are locked by the caller. `quota_models`: the models of quotas that count each GPU, by
    its id. Raises IntegrityError where a device or a quota is taken meanwhile.
    """
    gpu_by_id = {str(gpu.pk): gpu for gpu in gpus}
    slice_by_id = {str(row.pk): row for row in slices}
    replicas = tuple(replicas)
    attempt = Attempt.objects.create(job=job, number=job.attempts.count() + 1, created_at=at)
    # A gang of one has no barrier: its node starts it as soon as it is ready.
    desired = DesiredState.RUN if len(replicas) == 1 else DesiredState.PREPARE
    units: dict[str, int] = defaultdict(int)
    for replica in replicas:
        row = Replica.objects.create(
            attempt=attempt, rank=replica.rank, node_id=replica.node, desired_state=desired
        )
        for index, device in enumerate(replica.devices):
            for model in quota_models[device.gpu]:
                units[model] += device.units
            Allocation.objects.create(
                replica=row,
                slice=slice_by_id.get(device.slice)
                or slice_create(
                    gpu=gpu_by_id[device.gpu],
                    device=device,
                    project=job.project,
                    clients=processes,
                ),
                project=job.project,
                user=job.owner,
                units=device.units,
                # The first device of a replica carries all of its CPU and memory.
                cpu_milli=0 if index else job.cpu_milli,
                memory_mib=0 if index else job.memory_mib,
                reserved_at=at,
            )
    # A CHECK constraint refuses what the planner should have refused.
    quotas_take(quotas=quotas, units_by_model=units)
    return attempt


def gang_reserve(
    *, job: Job, site: str, board: str, units: int, quotas: Iterable[Quota], at: datetime
) -> Attempt:
    """Start an attempt at a site that keeps its nodes and devices to itself: every replica has
    `units` of a board there, taken from quotas.

    Job and quotas are locked by the caller. Raises IntegrityError where a quota is taken meanwhile.
    """
    attempt = Attempt.objects.create(
        job=job, site=site, number=job.attempts.count() + 1, created_at=at
    )
    for rank in range(job.replica_count):
        # The site starts a gang together: there is no barrier here.
        replica = Replica.objects.create(attempt=attempt, rank=rank, desired_state=DesiredState.RUN)
        Allocation.objects.create(
            replica=replica,
            board=board,
            project=job.project,
            user=job.owner,
            units=units,
            cpu_milli=job.cpu_milli,
            memory_mib=job.memory_mib,
            reserved_at=at,
        )
    taken = dict.fromkeys(board_quota_models(board), units * job.replica_count)
    quotas_take(quotas=quotas, units_by_model=taken)
    return attempt


def allocations_bind(*, replica: Replica, at: datetime) -> None:
    """The replica has its devices: their time counts from `at`."""
    rows = replica.allocations.filter(status=AllocationStatus.RESERVED)
    for row in rows.select_related("replica__attempt").lock_rows():
        advance(row, AllocationStatus.BOUND, at=at, bound_at=at)


def is_release_due(*, node: Node) -> bool:
    """Whether replicas that the node was to remove still have allocations."""
    return _to_be_removed(node).exists()


def allocations_mark_releasing(*, node: Node, listed: set[str]) -> bool:
    """Mark the allocations of replicas that the node was to remove and no longer lists."""
    rows = _to_be_removed(node).select_related("replica__attempt").lock_rows()
    gone = [row for row in rows if str(row.replica_id) not in listed]
    for row in gone:
        advance(row, AllocationStatus.RELEASING)
    return bool(gone)


def attempt_allocations_mark_releasing(*, attempt: Attempt) -> None:
    """Mark the allocations of an ended attempt of which its site has nothing left."""
    with transaction.atomic():
        rows = Allocation.objects.in_use().filter(replica__attempt=attempt)
        for row in rows.select_related("replica__attempt").lock_rows():
            advance(row, AllocationStatus.RELEASING)


def _to_be_removed(node: Node) -> AllocationQuerySet[Allocation]:
    removed = Replica.objects.filter(
        node=node, desired_state=DesiredState.GONE, gone_revision__lte=node.applied_revision
    )
    return Allocation.objects.in_use().filter(replica__in=removed)


def allocations_release() -> int:
    """Release what is marked: return quota, delete whole-GPU rows and shares, keep MIG slices."""
    waiting = Allocation.objects.filter(status=AllocationStatus.RELEASING)
    ids = list(waiting.values_list("pk", flat=True))
    return sum(_release(pk) for pk in ids)


def _release(pk: UUID) -> int:
    """One allocation in one short transaction. The clock is read after the GPU is locked: the
    intervals of two allocations of one slice never overlap."""
    with transaction.atomic():
        row = Allocation.objects.select_related("slice", "replica__attempt").get(pk=pk)
        quotas = Quota.objects.applying_to(row.project_id, row.user_id).lock_rows()
        device = _lock_slice(row.slice)
        models = quota_model_names(device.gpu) if device else board_quota_models(row.board)
        (row,) = Allocation.objects.filter(pk=pk).select_related("replica__attempt").lock_rows()
        if row.status != AllocationStatus.RELEASING:
            return 0
        now = timezone.now()
        used = max(0, (now - row.bound_at) // SECOND) if row.bound_at else 0
        advance(row, AllocationStatus.RELEASED, at=now, released_at=now, used_seconds=used)
        quotas_return(quotas=[q for q in quotas if q.model in models], units=row.units)
        if device and device.kind != SliceKind.MIG:
            slice_delete(device)
        return 1


def _lock_slice(row: Slice | None) -> Slice | None:
    """The slice, after its GPU; None at a site that keeps its devices to itself."""
    if row is None:
        return None
    Gpu.objects.filter(pk=row.gpu_id).lock_rows()
    (device,) = Slice.objects.filter(pk=row.pk).select_related("gpu").lock_rows()
    return device
