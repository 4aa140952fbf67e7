"""MIG geometry: where an instance may be placed on a GPU.

A GPU is a row of memory slices, numbered from 0; an instance covers `size` of them from `start`.
Occupancy is a bit mask: bit i is set if memory slice i is in use. A layout is legal exactly if the
masks of its instances are disjoint, each start is in the profile's list, the compute slices add up
to at most the board's, and no profile has more instances than its maximum.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from agents.contract.boards import Board, Profile


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """A profile on memory slices `start` to `start + size - 1`."""

    start: int
    size: int
    profile: str

    @property
    def mask(self) -> int:
        return ((1 << self.size) - 1) << self.start

    @property
    def slots(self) -> range:
        return range(self.start, self.start + self.size)


def placements(profile: Profile) -> tuple[Placement, ...]:
    """Every placement that the board allows for `profile`."""
    return tuple(Placement(start, profile.memory_slices, profile.name) for start in profile.starts)


def occupied_mask(taken: Iterable[Placement]) -> int:
    """The mask of all memory slices that `taken` cover."""
    mask = 0
    for placement in taken:
        mask |= placement.mask
    return mask


def free_placements(board: Board, profile: Profile, taken: Iterable[Placement]) -> list[Placement]:
    """Where `profile` can be created beside `taken`, in order of start."""
    taken = tuple(taken)
    if not _has_room(board, profile, taken):
        return []
    mask = occupied_mask(taken)
    return [p for p in placements(profile) if not p.mask & mask]


def is_legal(board: Board, layout: Iterable[Placement]) -> bool:
    """Whether the whole layout can exist on the board at once."""
    mask, compute = 0, 0
    counts: dict[str, int] = {}
    for placement in layout:
        profile = board.profile(placement.profile)
        if profile is None or placement not in placements(profile) or placement.mask & mask:
            return False
        mask |= placement.mask
        compute += profile.compute_slices
        counts[profile.name] = counts.get(profile.name, 0) + 1
        if counts[profile.name] > profile.max_instances:
            return False
    return compute <= board.compute_slices


def _has_room(board: Board, profile: Profile, taken: tuple[Placement, ...]) -> bool:
    compute = sum(_compute_slices(board, p.profile) for p in taken)
    same = sum(1 for p in taken if p.profile == profile.name)
    return same < profile.max_instances and compute + profile.compute_slices <= board.compute_slices


def _compute_slices(board: Board, name: str) -> int:
    profile = board.profile(name)
    if profile is None:
        raise ValueError(f"{board.key} has no profile {name}")
    return profile.compute_slices
