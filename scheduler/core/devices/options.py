"""The device options of a request: kinds of slice on boards that serve it, the cheapest first."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from agents.contract.boards import Board, Profile, known_boards, unknown_board
from agents.contract.documents import SliceKind
from agents.contract.units import UNITS_PER_GPU, slice_units
from scheduler.core.model.snapshot import DeviceRequest, GpuView, Isolation, NodeView


@dataclass(frozen=True, slots=True)
class DeviceOption:
    """One way to serve a replica: `count` devices of one kind on one board."""

    board: str
    kind: SliceKind
    profile: str
    count: int
    size: int
    """Memory slices of one device."""
    units: int
    """Of one device."""
    memory_mib: int
    """Of one device."""
    threads: int = 0
    """Percent of the SMs, for an MPS share."""

    @property
    def replica_units(self) -> int:
        return self.units * self.count


def gpu_board(gpu: GpuView) -> Board:
    """The board from the table, or one built from the driver's report if it is not in the table."""
    return known_boards().get(gpu.board) or _unknown(gpu.product_name, gpu.memory_mib, gpu.profiles)


def node_boards(nodes: Iterable[NodeView]) -> list[Board]:
    """The boards of their GPUs, each once, by key."""
    # By identity: to hash a board takes longer than to find it, and there is one object of each.
    found = {id(board): board for node in nodes for board in map(gpu_board, node.gpus)}
    return sorted(found.values(), key=lambda board: board.key)


@cache
def _unknown(product_name: str, memory_mib: int, profiles: tuple[Profile, ...]) -> Board:
    return unknown_board(product_name, memory_mib, profiles)


def device_options(device: DeviceRequest, boards_present: Iterable[Board]) -> list[DeviceOption]:
    """Every way to serve `device` on these boards, cheapest in units first."""
    options: list[DeviceOption] = []
    for board in sorted(set(boards_present), key=lambda b: b.key):
        if not device.models or board.key in device.models or board.model in device.models:
            options += _on_board(device, board)
    return sorted(options, key=lambda w: (w.units, w.memory_mib, w.board, w.profile))


def _on_board(device: DeviceRequest, board: Board) -> list[DeviceOption]:
    if device.gpus:
        return [_whole(board, device.gpus)]
    if device.mig:
        profile = board.profile(device.mig)
        return [_mig(board, profile)] if profile else []
    if device.mps_threads:
        fits = device.mps_memory_mib <= board.memory_mib
        return [_share(board, device.mps_threads, device.mps_memory_mib)] if fits else []
    if device.memory_mib:
        plain = (p for p in board.profiles if not p.has_media_extensions)
        options = [_mig(board, p) for p in plain] + [_whole(board, 1)]
        if device.isolation is Isolation.ANY and device.memory_mib < board.memory_mib:
            # The same share of threads as of memory.
            threads = -(-100 * device.memory_mib // board.memory_mib)
            options.append(_share(board, threads, device.memory_mib))
        return [option for option in options if option.memory_mib >= device.memory_mib]
    return []


def _whole(board: Board, count: int) -> DeviceOption:
    return DeviceOption(
        board=board.key,
        kind=SliceKind.GPU,
        profile="",
        count=count,
        size=board.memory_slices,
        units=UNITS_PER_GPU,
        memory_mib=board.memory_mib,
    )


def _share(board: Board, threads: int, memory_mib: int) -> DeviceOption:
    """Its cost is its dominant share, max(threads, memory)."""
    return DeviceOption(
        board=board.key,
        kind=SliceKind.MPS,
        profile="",
        count=1,
        size=board.memory_slices,
        units=slice_units(threads, 100, memory_mib, board.memory_mib),
        memory_mib=memory_mib,
        threads=threads,
    )


def _mig(board: Board, profile: Profile) -> DeviceOption:
    return DeviceOption(
        board=board.key,
        kind=SliceKind.MIG,
        profile=profile.name,
        count=1,
        size=profile.memory_slices,
        units=board.units(profile),
        memory_mib=profile.memory_mib,
    )
