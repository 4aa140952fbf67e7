"""Slices for replicas, made where none exists yet."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError
from django.utils import timezone

from agents.contract.documents import GpuMode, SliceKind
from portal.accounts.models import Project
from portal.database.row_writes import rows_add, rows_update
from portal.inventory.models import Gpu, Slice, SlotClaim
from scheduler.core.model.decisions import DevicePlacement


@dataclass(frozen=True, slots=True)
class SliceOrder:
    """A slice to be made."""

    gpu: Gpu
    """Locked by the caller; its mode and shares change."""
    device: DevicePlacement
    project: Project | None = None
    """Of an MPS share."""
    clients: int = 0
    """Of an MPS share: how many processes use it."""

    @property
    def is_share(self) -> bool:
        return self.device.kind is SliceKind.MPS


def slices_create(orders: Sequence[SliceOrder]) -> list[Slice]:
    """The rows of new slices, in the order of `orders`: MIG slices, whole GPUs and MPS shares, in
    as many statements for one as for many.

    A MIG slice or a whole GPU claims its slots. A share claims none: the GPU counts what its shares
    take, and for which project. Raises IntegrityError where slots, threads or memory are taken.
    """
    devices = [order for order in orders if not order.is_share]
    shares = [order for order in orders if order.is_share]
    _gpus_partition(devices)
    rows = [_row(order) for order in orders]
    rows_add(Slice, rows)
    claiming = [row for row in rows if row.kind != SliceKind.MPS]
    claims = [
        SlotClaim(gpu=row.gpu, slot=slot, slice=row)
        for row in claiming
        for slot in range(row.start, row.start + row.size)
    ]
    rows_add(SlotClaim, claims)
    # After the claims: a GPU that has any takes no share.
    _gpus_share(shares)
    return rows


def _row(order: SliceOrder) -> Slice:
    device = order.device
    return Slice(
        gpu=order.gpu,
        kind=device.kind,
        profile="" if order.is_share else device.profile,
        start=device.start,
        size=device.size,
        memory_mib=device.memory_mib,
        units=device.units,
        threads=device.threads if order.is_share else 0,
        clients=order.clients if order.is_share else 0,
    )


def _gpus_partition(orders: Iterable[SliceOrder]) -> None:
    """An empty GPU takes the mode that its new slice needs."""
    settles_at, changed = next_settle_time(), {}
    for order in orders:
        gpu = order.gpu
        before = (gpu.desired_mode, gpu.settles_at)
        gpu.desired_mode = GpuMode.WHOLE
        if order.device.kind is SliceKind.MIG:
            gpu.desired_mode, gpu.settles_at = GpuMode.MIG, settles_at
        if before != (gpu.desired_mode, gpu.settles_at):
            changed[gpu.pk] = gpu
    rows_update(Gpu, changed.values(), ["desired_mode", "settles_at"])


def _gpus_share(orders: Iterable[SliceOrder]) -> None:
    shared: dict[UUID, Gpu] = {}
    for order in orders:
        gpu = shared.setdefault(order.gpu.pk, order.gpu)
        project = order.project
        if project is None or gpu.sharing_project_id not in (None, project.pk):
            raise IntegrityError(f"GPU {gpu.uuid} is not free for a share of {project}")
        gpu.desired_mode, gpu.sharing_project = GpuMode.MPS, project
        gpu.shared_threads += order.device.threads
        gpu.shared_memory_mib += order.device.memory_mib
    unclaimed = Gpu.objects.filter(claims=None)
    columns = ["desired_mode", "sharing_project", "shared_threads", "shared_memory_mib"]
    if unclaimed.bulk_update(shared.values(), columns) != len(shared):
        raise IntegrityError("a GPU that has slices, or is allocated whole, takes no share")


def next_settle_time() -> datetime:
    """Until then, a GPU that is partitioned now keeps its idle slices."""
    return timezone.now() + timedelta(seconds=settings.PLATFORM.partition_dwell_seconds)
