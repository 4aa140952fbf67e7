"""Slices for replicas, made where none exists yet."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError
from django.db.models import F, Q
from django.utils import timezone

from agents.contract.documents import GpuMode, SliceKind
from portal.accounts.models import Project
from portal.inventory.models import Gpu, Slice, SlotClaim
from scheduler.core.model.decisions import DevicePlacement


def slice_create(*, gpu: Gpu, device: DevicePlacement, project: Project, clients: int) -> Slice:
    """A new slice for a replica of this project, of the kind that the device says."""
    if device.kind is SliceKind.MPS:
        return share_create(gpu=gpu, device=device, project=project, clients=clients)
    return device_create(gpu=gpu, device=device)


def device_create(*, gpu: Gpu, device: DevicePlacement) -> Slice:
    """A MIG slice, or the row of a whole GPU, with its slot claims. An empty GPU takes the mode
    that the slice needs."""
    mode = GpuMode.MIG if device.kind is SliceKind.MIG else GpuMode.WHOLE
    if mode is GpuMode.MIG:
        gpu.settles_at = next_settle_time()
    gpu.desired_mode = mode
    gpu.save(update_fields=["desired_mode", "settles_at"])
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


def share_create(*, gpu: Gpu, device: DevicePlacement, project: Project, clients: int) -> Slice:
    """An MPS share. It claims no slots: the GPU counts what its shares take, and for which project.

    Raises IntegrityError if another project, a slice or a whole-GPU job is on the GPU.
    """
    free = Gpu.objects.filter(
        Q(sharing_project=None) | Q(sharing_project=project), pk=gpu.pk, claims=None
    )
    taken = free.update(
        desired_mode=GpuMode.MPS,
        sharing_project=project,
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


def next_settle_time() -> datetime:
    """Until then, a GPU that is partitioned now keeps its idle slices."""
    return timezone.now() + timedelta(seconds=settings.PLATFORM.partition_dwell_seconds)
