"""The layouts of one board as arrays: which placement leads from which layout to which.

Built once per board from `agents.contract.layouts`, which holds the rules; the values of carving
and the replay read the same arrays.
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
    """L legal layouts over S spots (a spot is a profile at a start) of P profiles.

    `after` (L x S): the layout with one more instance at that spot; -1 where none can be made.
    `before` (L x S): the layout without the instance at that spot; -1 where it has none.
    `overlaps` (L x S): how many instances stand in the spot's slices. `count` (L x P): instances by
    profile. `order`: layouts with more instances later. Spots are in the order of profile, start.
    `starts` (P + 1): where each profile's spots begin. `profile_of`, `size` (S): number of the
    profile, memory slices. `plain` (S): not one of the
    variants that only who names them gets. `used` (L): memory slices covered.
    """

    board: Board
    profile_names: tuple[str, ...]
    spots: tuple[Placement, ...]
    layout_numbers: dict[int, int]
    spot_bits: dict[Placement, int]
    with_instance: Ints
    without_instance: Ints
    overlaps: Ints
    profile_counts: Ints
    levels: tuple[NDArray[np.int64], ...]
    first_spots: Ints
    profile_of: Ints
    size: Ints
    is_plain: NDArray[np.bool_]
    covered_slices: Ints

    def layout_number(self, layout: Iterable[Placement]) -> int:
        """The number of a layout, O(instances); -1 where it is not a legal one."""
        bits = 0
        for place in layout:
            bit = self.spot_bits.get(place)
            if bit is None or bits & bit:
                return -1
            bits |= bit
        return self.layout_numbers.get(bits, -1)

    def spot_number(self, place: Placement) -> int:
        """The number of a spot; -1 where the board has no such placement."""
        return self.spot_bits.get(place, 0).bit_length() - 1


@lru_cache(64)
def layout_graph(board: Board) -> LayoutGraph | None:
    """The arrays of a board; None for one without MIG, or with too many layouts for a table."""
    table = layout_table(board)
    if not board.supports_mig or not table.is_complete:
        return None
    spots = tuple(place for profile in board.profiles for place in placements(profile))
    bit = {place: 1 << number for number, place in enumerate(spots)}
    found = sorted((sum(bit[place] for place in layout) for layout in table), key=_by_size)
    masks = np.array(found, dtype=np.int64)
    index = {bits: number for number, bits in enumerate(found)}
    ones = np.array([bit[place] for place in spots], dtype=np.int64)
    has = (masks[:, None] & ones[None, :]) != 0
    clash = np.array([[bool(p.mask & q.mask) for q in spots] for p in spots])
    after = np.full(has.shape, -1, dtype=np.int32)
    before = np.full(has.shape, -1, dtype=np.int32)
    for number, spot in zip(*np.nonzero(has), strict=True):
        smaller = index[found[number] ^ bit[spots[spot]]]
        before[number, spot] = smaller
        after[smaller, spot] = number
    names = tuple(profile.name for profile in board.profiles)
    profile_of = np.array([names.index(place.profile) for place in spots], dtype=np.int32)
    size = np.array([place.size for place in spots], dtype=np.int32)
    held = has.astype(np.int32)
    return LayoutGraph(
        board=board,
        profile_names=names,
        spots=spots,
        layout_numbers=index,
        spot_bits=bit,
        with_instance=after,
        without_instance=before,
        overlaps=(held @ clash.astype(np.int32)).astype(np.int32),
        profile_counts=(held @ np.eye(len(names), dtype=np.int32)[profile_of]).astype(np.int32),
        levels=_levels(held.sum(axis=1)),
        first_spots=np.searchsorted(profile_of, np.arange(len(names) + 1)).astype(np.int32),
        profile_of=profile_of,
        size=size,
        is_plain=np.array([not _is_extended(board, place) for place in spots]),
        covered_slices=(held @ size).astype(np.int32),
    )


def _by_size(bits: int) -> tuple[int, int]:
    return bits.bit_count(), bits


def _is_extended(board: Board, place: Placement) -> bool:
    profile = board.profile(place.profile)
    return profile is not None and profile.has_media_extensions


def _levels(instances: NDArray[np.int32]) -> tuple[NDArray[np.int64], ...]:
    return tuple(np.flatnonzero(instances == level) for level in range(int(instances.max()) + 1))
