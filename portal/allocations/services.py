"""Allocations from bound to released. A device is free only after its container was seen gone."""

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from agents.contract.documents import SliceKind
from portal.audit.transitions import advance
from portal.database.intervals import SECOND
from portal.database.locks import lock_rows
from portal.inventory.boards import quota_model_names
from portal.inventory.models import Gpu, Node, Slice
from portal.inventory.reports import slice_delete
from portal.jobs.models import Allocation, DesiredState, Replica
from portal.quotas.models import Quota
from portal.quotas.services import quotas_return
from scheduler.core.model.states import AllocationStatus, SliceStatus


def allocations_bind(*, replica: Replica, at: datetime) -> None:
    """The replica has its devices: their time counts from now."""
    rows = replica.allocations.filter(status=AllocationStatus.RESERVED)
    for row in lock_rows(rows.select_related("replica__attempt")):
        advance(row, AllocationStatus.BOUND, at=at, bound_at=at)


def is_release_due(*, node: Node) -> bool:
    """Whether the node was told to remove replicas whose devices are still held for them."""
    return _told_to_go(node).exists()


def allocations_mark_releasing(*, node: Node, listed: set[str]) -> bool:
    """Mark the allocations of replicas that the node was told to remove and no longer lists."""
    rows = lock_rows(_told_to_go(node).select_related("replica__attempt"))
    gone = [row for row in rows if str(row.replica_id) not in listed]
    for row in gone:
        advance(row, AllocationStatus.RELEASING)
    return bool(gone)


def _told_to_go(node: Node) -> QuerySet[Allocation]:
    told = Replica.objects.filter(
        node=node, wish=DesiredState.GONE, gone_revision__lte=node.applied_revision
    )
    return Allocation.objects.in_use().filter(replica__in=told)


def allocations_release() -> int:
    """Release everything marked: quota back, whole GPUs and shares away, MIG slices kept warm."""
    waiting = Allocation.objects.filter(status=AllocationStatus.RELEASING)
    ids = list(waiting.values_list("pk", flat=True))
    return sum(_release(pk) for pk in ids)


def _release(pk: UUID) -> int:
    """One allocation in one short transaction. The GPU is locked before the time is taken, so that
    the intervals of two holders of one slice never overlap."""
    with transaction.atomic():
        row = Allocation.objects.select_related("slice", "replica__attempt").get(pk=pk)
        quotas = lock_rows(Quota.objects.applying_to(row.project_id, row.user_id))
        lock_rows(Gpu.objects.filter(pk=row.slice.gpu_id))
        (device,) = lock_rows(Slice.objects.filter(pk=row.slice_id).select_related("gpu"))
        models = quota_model_names(device.gpu)
        (row,) = lock_rows(Allocation.objects.filter(pk=pk).select_related("replica__attempt"))
        if row.status != AllocationStatus.RELEASING:
            return 0
        now = timezone.now()
        used = max(0, (now - row.bound_at) // SECOND) if row.bound_at else 0
        advance(row, AllocationStatus.RELEASED, at=now, released_at=now, used_seconds=used)
        quotas_return(quotas=[q for q in quotas if q.model in models], units=row.units)
        if device.kind != SliceKind.MIG:
            slice_delete(device)
        return 1


def idle_slices(slices: list[str]) -> list[Slice]:
    """Those of `slices` that are ready and held by nobody, locked."""
    live = Allocation.objects.live().filter(slice=OuterRef("pk"))
    rows = Slice.objects.filter(pk__in=slices, status=SliceStatus.READY).exclude(Exists(live))
    return lock_rows(rows.select_related("gpu"))
