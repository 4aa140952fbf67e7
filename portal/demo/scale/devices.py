"""The present state of each GPU: whole, carved in a legal layout, shared by MPS, or empty."""

from dataclasses import dataclass, field
from functools import cache

from django.db.models import F

from agents.contract.boards import Board
from agents.contract.documents import GpuMode, SliceKind
from agents.contract.geometry import Placement
from agents.contract.layouts import layout_table
from agents.contract.units import UNITS_PER_GPU, UNITS_PER_PERCENT
from portal.accounts.models import Project
from portal.demo.scale.size import SeededRandom
from portal.inventory.boards import board_of
from portal.inventory.models import Gpu, Slice, SlotClaim
from scheduler.core.model.states import GpuHealth, NodeStatus, SliceStatus

SHARES = (10, 20, 25, 25, 40, 50)
# Percent of the GPUs that are carved, shared and empty; jobs get the others whole.
CARVED, SHARED, EMPTY = 14, 4, 16
BATCH_SIZE = 500


@dataclass(slots=True)
class DevicePool:
    """The devices that jobs can get, and all slices."""

    # By node, in order of their index.
    whole_gpus: dict[str, list[Gpu]] = field(default_factory=dict)
    carved: list[Slice] = field(default_factory=list)
    # Each with the project that the GPU is shared by.
    shares: list[tuple[Project, Slice]] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)


def choose_devices(rng: SeededRandom, gpus: list[Gpu], projects: list[Project]) -> DevicePool:
    """Choose the state of each GPU. Sets modes and shares on the unsaved GPUs; writes nothing."""
    pool = DevicePool()
    for gpu in gpus:
        if gpu.health != GpuHealth.OK or gpu.node.status == NodeStatus.ENROLLED:
            continue
        board, dice = board_of(gpu), rng.random.random() * 100
        if dice < CARVED and board.supports_mig:
            _carve(rng, gpu, board, pool)
        elif CARVED <= dice < CARVED + SHARED:
            _share(rng, gpu, board, rng.random.choice(projects), pool)
        elif dice >= CARVED + SHARED + EMPTY:
            pool.whole_gpus.setdefault(gpu.node.name, []).append(gpu)
    return pool


def gpu_slice(rng: SeededRandom, gpu: Gpu) -> Slice:
    board = board_of(gpu)
    return Slice(
        id=rng.uuid(),
        gpu=gpu,
        kind=SliceKind.GPU,
        size=board.memory_slices,
        memory_mib=gpu.memory_mib,
        units=UNITS_PER_GPU,
        status=SliceStatus.READY,
        device_uuid=gpu.uuid,
        ready_at=rng.recent_moment(20),
    )


def mig_slice(rng: SeededRandom, gpu: Gpu, board: Board, place: Placement) -> Slice:
    profile = board.profile(place.profile)
    assert profile is not None, "the layout belongs to this board"  # noqa: S101 - an invariant of the tables
    return Slice(
        id=rng.uuid(),
        gpu=gpu,
        kind=SliceKind.MIG,
        profile=place.profile,
        start=place.start,
        size=place.size,
        memory_mib=profile.memory_mib,
        units=board.units(profile),
        status=SliceStatus.READY,
        device_uuid=f"MIG-{rng.uuid()}",
        ready_at=rng.recent_moment(40),
    )


@cache
def plain_layouts(board: Board) -> tuple[tuple[Placement, ...], ...]:
    """Non-empty layouts without media-extension profiles."""
    names = {p.name for p in board.profiles if not p.has_media_extensions}
    board_layouts = layout_table(board)
    return tuple(
        lay for lay in board_layouts if lay and all(place.profile in names for place in lay)
    )


def slices_write(pool: DevicePool) -> None:
    Slice.objects.bulk_create(pool.slices, batch_size=BATCH_SIZE)
    Slice.objects.filter(ready_at__isnull=False).update(created_at=F("ready_at"))
    claims = [
        SlotClaim(gpu=row.gpu, slot=slot, slice=row)
        for row in pool.slices
        if row.kind != SliceKind.MPS and row.status != SliceStatus.DELETED
        for slot in range(row.start, row.start + row.size)
    ]
    SlotClaim.objects.bulk_create(claims, batch_size=2_000)


def _carve(rng: SeededRandom, gpu: Gpu, board: Board, pool: DevicePool) -> None:
    gpu.desired_mode = gpu.observed_mode = GpuMode.MIG
    for place in rng.random.choice(plain_layouts(board)):
        row = mig_slice(rng, gpu, board, place)
        pool.slices.append(row)
        if rng.happens(78):
            pool.carved.append(row)


def _share(rng: SeededRandom, gpu: Gpu, board: Board, project: Project, pool: DevicePool) -> None:
    left = 100
    for threads in rng.random.sample(SHARES, 3):
        if threads > left:
            continue
        left -= threads
        row = Slice(
            id=rng.uuid(),
            gpu=gpu,
            kind=SliceKind.MPS,
            size=board.memory_slices,
            memory_mib=gpu.memory_mib * threads // 100,
            units=threads * UNITS_PER_PERCENT,
            threads=threads,
            clients=1,
            status=SliceStatus.READY,
            device_uuid=gpu.uuid,
            ready_at=rng.recent_moment(20),
        )
        pool.slices.append(row)
        pool.shares.append((project, row))
        gpu.shared_threads += threads
        gpu.shared_memory_mib += row.memory_mib
    gpu.sharing_project = project
    gpu.desired_mode = gpu.observed_mode = GpuMode.MPS
