"""The amounts of GPU memory that a cluster's cards offer: "at least 16 GB".

A size stands for every device with at least so much memory, over all models; the planner takes the
cheapest that it finds. So a card does not need the names of profiles.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from agents.contract.boards import Board
from agents.contract.documents import SliceKind
from agents.contract.units import UNITS_PER_GPU
from scheduler.core.availability.counts import Availability, DeviceCount, DeviceKind
from scheduler.core.devices.options import DeviceOption, device_options
from scheduler.core.model.snapshot import DeviceRequest

MAX_SIZES = 6
GIB_MIB = 1_024
# Sizes that people think in; others are rounded down to the next of these.
ROUND_GB = (1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512)
# 16-bit weights of a model with 7 billion parameters take 14 GB; with caches a little more.
COMMON_MODEL_GB = 16

Stock = Sequence[tuple[Board, Availability]]


@dataclass(frozen=True, slots=True)
class MemorySize:
    """At least so much memory on one device."""

    gb: int
    cheapest: DeviceOption
    """The device that costs least of a quota."""
    board: Board
    """Of the cheapest."""
    count: DeviceCount
    """Devices with so much memory that could start now: for each board those of the size of which
    there are most, so never more than there are."""

    @property
    def part(self) -> Fraction:
        """Of a GPU, that the cheapest device costs."""
        return Fraction(self.cheapest.units, UNITS_PER_GPU)


def memory_sizes(stock: Stock) -> tuple[MemorySize, ...]:
    """Four to six sizes where the cluster has so many, from small to large."""
    sizes = {gb for board, _counts in stock for gb in sizes_of(board)}
    return tuple(_size(gb, stock) for gb in spread(sizes))


def spread(sizes: Collection[int]) -> list[int]:
    """At most MAX_SIZES of them: the smallest, the largest, and between them those farthest apart
    in proportion."""
    kept = sorted(sizes)
    while len(kept) > MAX_SIZES:
        steps = {kept[i + 1] / kept[i]: i for i in reversed(range(len(kept) - 1))}
        nearest = steps[min(steps)]
        # Of two neighbours the larger goes, except at the end.
        del kept[nearest + 1 if nearest + 2 < len(kept) else nearest]
    return kept


def recommended_size(sizes: Iterable[MemorySize]) -> MemorySize | None:
    """The smallest size for a common model of which a device is free; else the smallest for one;
    else the largest."""
    ordered = sorted(sizes, key=lambda size: size.gb)
    enough = [size for size in ordered if size.gb >= COMMON_MODEL_GB]
    free = [size for size in enough if size.count.available]
    return next(iter(free or enough or ordered[-1:]), None)


def sizes_of(board: Board) -> Iterable[int]:
    """The sizes in GB of the devices of a board, rounded down."""
    plain = [p.memory_mib for p in board.profiles if not p.has_media_extensions]
    for mib in {*plain, board.memory_mib}:
        # Of less than the smallest size, as of a board that reports none, there is no card.
        yield from [gb for gb in ROUND_GB if gb * GIB_MIB <= mib][-1:]


def _size(gb: int, stock: Stock) -> MemorySize:
    device = DeviceRequest(memory_mib=gb * GIB_MIB)
    boards = {board.key: board for board, _counts in stock}
    options = device_options(device, boards.values())
    count = DeviceCount()
    for board, counts in stock:
        of_board = [counts.of(_kind(each)) for each in options if each.board == board.key]
        if of_board:
            most = max(of_board, key=lambda each: (each.available, each.total))
            count.add(most)
    cheapest = options[0]
    return MemorySize(gb, cheapest, boards[cheapest.board], count)


def _kind(option: DeviceOption) -> DeviceKind:
    return DeviceKind(option.kind, option.profile if option.kind is SliceKind.MIG else "")
