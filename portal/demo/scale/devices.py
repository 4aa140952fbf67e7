"""What stands on each GPU now: whole, carved in a legal layout, shared by MPS, or nothing."""

from dataclasses import dataclass, field
from functools import cache

from django.db.models import F

from agents.contract.boards import Board
from agents.contract.documents import GpuMode, SliceKind
from agents.contract.geometry import Placement
from agents.contract.layouts import layout_table
from agents.contract.units import UNITS_PER_GPU, UNITS_PER_PERCENT
from portal.accounts.models import Project
from portal.demo.scale.size import Chance
from portal.inventory.boards import board_of
from portal.inventory.models import Gpu, Slice, SlotClaim
from scheduler.core.model.states import GpuHealth, NodeStatus, SliceStatus

SHARES = (10, 20, 25, 25, 40, 50)
# Percent of the GPUs that are carved, shared, and left alone; the rest are given whole.
CARVED, SHARED, EMPTY = 14, 4, 16
MANY = 500


@dataclass(slots=True)
class Devices:
    """What jobs may be put on. `whole`: GPUs by node, in order; `shares`: by project."""

    whole: dict[str, list[Gpu]] = field(default_factory=dict)
    carved: list[Slice] = field(default_factory=list)
    shares: list[tuple[Project, Slice]] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)


def devices_made(chance: Chance, gpus: list[Gpu], projects: list[Project]) -> Devices:
    """Chooses; writes nothing, but sets the modes and shares of the GPUs."""
    found = Devices()
    for gpu in gpus:
        if gpu.health != GpuHealth.OK or gpu.node.status == NodeStatus.ENROLLED:
            continue
        board, dice = board_of(gpu), chance.random.random() * 100
        if dice < CARVED and board.supports_mig:
            _carve(chance, gpu, board, found)
        elif CARVED <= dice < CARVED + SHARED:
            _share(chance, gpu, board, chance.random.choice(projects), found)
        elif dice >= CARVED + SHARED + EMPTY:
            found.whole.setdefault(gpu.node.name, []).append(gpu)
    return found


def whole_slice(chance: Chance, gpu: Gpu) -> Slice:
    board = board_of(gpu)
    return Slice(
        id=chance.uuid(),
        gpu=gpu,
        kind=SliceKind.GPU,
        size=board.memory_slices,
        memory_mib=gpu.memory_mib,
        units=UNITS_PER_GPU,
        status=SliceStatus.READY,
        device_uuid=gpu.uuid,
        ready_at=chance.back(20),
    )


def mig_slice(chance: Chance, gpu: Gpu, board: Board, place: Placement) -> Slice:
    profile = board.profile(place.profile)
    assert profile is not None, "the layout is of this board"  # noqa: S101 - a table's own promise
    return Slice(
        id=chance.uuid(),
        gpu=gpu,
        kind=SliceKind.MIG,
        profile=place.profile,
        start=place.start,
        size=place.size,
        memory_mib=profile.memory_mib,
        units=board.units(profile),
        status=SliceStatus.READY,
        device_uuid=f"MIG-{chance.uuid()}",
        ready_at=chance.back(40),
    )


@cache
def plain_layouts(board: Board) -> tuple[tuple[Placement, ...], ...]:
    """Those of plain profiles, with at least one slice."""
    names = {p.name for p in board.profiles if not p.has_media_extensions}
    found = layout_table(board)
    return tuple(lay for lay in found if lay and all(place.profile in names for place in lay))


def slices_write(found: Devices) -> None:
    Slice.objects.bulk_create(found.slices, batch_size=MANY)
    Slice.objects.filter(ready_at__isnull=False).update(created_at=F("ready_at"))
    claims = [
        SlotClaim(gpu=row.gpu, slot=slot, slice=row)
        for row in found.slices
        if row.kind != SliceKind.MPS and row.status != SliceStatus.DELETED
        for slot in range(row.start, row.start + row.size)
    ]
    SlotClaim.objects.bulk_create(claims, batch_size=2_000)


def _carve(chance: Chance, gpu: Gpu, board: Board, found: Devices) -> None:
    gpu.desired_mode = gpu.observed_mode = GpuMode.MIG
    for place in chance.random.choice(plain_layouts(board)):
        row = mig_slice(chance, gpu, board, place)
        found.slices.append(row)
        if chance.happens(78):
            found.carved.append(row)


def _share(chance: Chance, gpu: Gpu, board: Board, project: Project, found: Devices) -> None:
    left = 100
    for threads in chance.random.sample(SHARES, 3):
        if threads > left:
            continue
        left -= threads
        row = Slice(
            id=chance.uuid(),
            gpu=gpu,
            kind=SliceKind.MPS,
            size=board.memory_slices,
            memory_mib=gpu.memory_mib * threads // 100,
            units=threads * UNITS_PER_PERCENT,
            threads=threads,
            clients=1,
            status=SliceStatus.READY,
            device_uuid=gpu.uuid,
            ready_at=chance.back(20),
        )
        found.slices.append(row)
        found.shares.append((project, row))
        gpu.shared_threads += threads
        gpu.shared_memory_mib += row.memory_mib
    gpu.shared_by = project
    gpu.desired_mode = gpu.observed_mode = GpuMode.MPS
