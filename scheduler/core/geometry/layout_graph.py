"""The legal layouts of a board as a graph in arrays: which placement leads from one to another.

Built once per board from the rules in `agents.contract.layouts`. Placement values and the MIG
replay read the same arrays.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from agents.contract.boards import Board
from agents.contract.geometry import Placement, placements
from agents.contract.layouts import layout_table

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class LayoutGraph:
    """L legal layouts over S spots of P profiles. A spot is a profile at a start."""

    board: Board
    profile_names: tuple[str, ...]
    spots: tuple[Placement, ...]
    """In the order of profile and start."""
    layout_numbers: dict[int, int]
    """By the bits of the layout's spots."""
    spot_bits: dict[Placement, int]
    with_instance: Ints
    """(L x S) The layout with one more instance at the spot; -1 if none can be made there."""
    without_instance: Ints
    """(L x S) The layout without the instance at the spot; -1 if there is none."""
    overlaps: Ints
    """(L x S) How many instances occupy slices of the spot."""
    profile_counts: Ints
    """(L x P) Instances by profile."""
    levels: tuple[NDArray[np.int64], ...]
    """Layouts by their number of instances, fewest first."""
    first_spots: Ints
    """(P + 1) Where the spots of each profile begin."""
    profile_of: Ints
    """(S) Number of the profile."""
    size: Ints
    """(S) Memory slices."""
    is_plain: NDArray[np.bool_]
    """(S) False for variants that a request gets only by name, such as media extensions."""
    covered_slices: Ints
    """(L) Memory slices in use."""

    def layout_number(self, layout: Iterable[Placement]) -> int:
        """The number of a layout, in O(instances); -1 if it is not legal."""
        bits = 0
        for place in layout:
            bit = self.spot_bits.get(place)
            if bit is None or bits & bit:
                return -1
            bits |= bit
        return self.layout_numbers.get(bits, -1)

    def spot_number(self, place: Placement) -> int:
        """The number of a spot; -1 if the board has no such placement."""
        return self.spot_bits.get(place, 0).bit_length() - 1


@lru_cache(64)
def layout_graph(board: Board) -> LayoutGraph | None:
    """The graph of a board; None without MIG, or with too many layouts for a table."""
    table = layout_table(board)
    if not board.supports_mig or not table.is_complete:
        return None
    spots = tuple(place for profile in board.profiles for place in placements(profile))
    bit = {place: 1 << number for number, place in enumerate(spots)}
    layout_bits = sorted((sum(bit[place] for place in layout) for layout in table), key=_by_size)
    masks = np.array(layout_bits, dtype=np.int64)
    index = {bits: number for number, bits in enumerate(layout_bits)}
    bits_of_spots = np.array([bit[place] for place in spots], dtype=np.int64)
    has = (masks[:, None] & bits_of_spots[None, :]) != 0
    clash = np.array([[bool(p.mask & q.mask) for q in spots] for p in spots])
    after = np.full(has.shape, -1, dtype=np.int32)
    before = np.full(has.shape, -1, dtype=np.int32)
    for number, spot in zip(*np.nonzero(has), strict=True):
        smaller = index[layout_bits[number] ^ bit[spots[spot]]]
        before[number, spot] = smaller
        after[smaller, spot] = number
    names = tuple(profile.name for profile in board.profiles)
    profile_of = np.array([names.index(place.profile) for place in spots], dtype=np.int32)
    size = np.array([place.size for place in spots], dtype=np.int32)
    occupied = has.astype(np.int32)
    return LayoutGraph(
        board=board,
        profile_names=names,
        spots=spots,
        layout_numbers=index,
        spot_bits=bit,
        with_instance=after,
        without_instance=before,
        overlaps=(occupied @ clash.astype(np.int32)).astype(np.int32),
        profile_counts=(occupied @ np.eye(len(names), dtype=np.int32)[profile_of]).astype(np.int32),
        levels=_levels(occupied.sum(axis=1)),
        first_spots=np.searchsorted(profile_of, np.arange(len(names) + 1)).astype(np.int32),
        profile_of=profile_of,
        size=size,
        is_plain=np.array([not _is_extended(board, place) for place in spots]),
        covered_slices=(occupied @ size).astype(np.int32),
    )


def _by_size(bits: int) -> tuple[int, int]:
    return bits.bit_count(), bits


def _is_extended(board: Board, place: Placement) -> bool:
    profile = board.profile(place.profile)
    return profile is not None and profile.has_media_extensions


def _levels(instances: NDArray[np.int32]) -> tuple[NDArray[np.int64], ...]:
    return tuple(np.flatnonzero(instances == level) for level in range(int(instances.max()) + 1))
