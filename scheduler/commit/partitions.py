"""New slices in the rows: for a job that is placed, or ahead of need."""

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils import timezone

from agents.contract.boards import Profile
from agents.contract.documents import GpuMode, SliceKind
from agents.contract.geometry import Placement
from agents.contract.phrase import Phrase
from portal.accounts.models import Project
from portal.audit.transitions import event_record
from portal.database.locks import lock_rows
from portal.inventory.boards import board_of
from portal.inventory.models import Gpu, Node, Slice, SlotClaim
from portal.live.bell import ring
from portal.planning.snapshot import cluster_snapshot
from scheduler.commit.changes import settles_at
from scheduler.core.model.decisions import Carve, DevicePlacement
from scheduler.core.placement.ledger import Ledger, free_starts


def slice_create(gpu: Gpu, device: DevicePlacement, project: Project, processes: int) -> Slice:
    """A new slice for a job of this project. An empty GPU takes the mode that it needs."""
    if device.kind is SliceKind.MPS:
        return _share_create(gpu, device, project, processes)
    return _carved(gpu, device)


def _carved(gpu: Gpu, device: DevicePlacement) -> Slice:
    """A new slice with its claims."""
    mode = GpuMode.MIG if device.kind is SliceKind.MIG else GpuMode.WHOLE
    if mode is GpuMode.MIG:
        gpu.settles_at = settles_at()
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


def _share_create(gpu: Gpu, device: DevicePlacement, project: Project, clients: int) -> Slice:
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


def carve_commit(carve: Carve) -> bool:
    """Make a slice that nobody holds yet. False where its place is no longer free, or an admin
    pinned the GPU."""
    with transaction.atomic():
        found = Gpu.objects.filter(pk=carve.gpu).first()
        if found is None:
            return False
        lock_rows(Node.objects.filter(pk=found.node_id))
        (gpu,) = lock_rows(Gpu.objects.filter(pk=carve.gpu))
        board = board_of(gpu)
        profile = board.profile(carve.profile)
        if gpu.pinned or profile is None or not _is_free(gpu, carve, profile):
            return False
        _carved(
            gpu,
            DevicePlacement(
                gpu=carve.gpu,
                kind=SliceKind.MIG,
                profile=carve.profile,
                start=carve.start,
                size=carve.size,
                units=board.units(profile),
                memory_mib=profile.memory_mib,
            ),
        )
        event_record(
            gpu,
            "carve",
            carve.sentence
            or Phrase(
                "%(profile)s at %(start)s, ahead of need", profile=carve.profile, start=carve.start
            ),
        )
        ring("cluster")
        return True


def _is_free(gpu: Gpu, carve: Carve, profile: Profile) -> bool:
    """The same rules as for a job's own slice, on the rows of now."""
    snapshot = cluster_snapshot(now=timezone.now(), nodes=[gpu.node_id])
    space = Ledger(snapshot).gpus.get(carve.gpu)
    if space is None or not space.view.healthy or not snapshot.nodes[0].available:
        return False
    here = Placement(carve.start, carve.size, carve.profile)
    return space.may_carve() and here in free_starts(space.board, profile, space.layout())
