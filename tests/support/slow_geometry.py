"""The answers of the layout table, computed from the rules: slow, but easy to verify."""

from collections.abc import Iterable, Iterator

from agents.contract.boards import Board
from agents.contract.geometry import Placement, free_placements


def room_left(board: Board, taken: Iterable[Placement]) -> int:
    """How many placements of all plain profiles stay possible beside `taken`.

    The planner ranks places by how much room they leave: a place that destroys few larger
    placements is better.
    """
    taken = tuple(taken)
    return sum(
        p.size * p.size
        for profile in board.profiles
        if not profile.has_media_extensions
        for p in free_placements(board, profile, taken)
    )


def fits_together(board: Board, taken: Iterable[Placement]) -> Iterator[Placement]:
    """Each plain placement that can be added to `taken` by itself, larger first."""
    taken = tuple(taken)
    ordered = sorted(board.profiles, key=lambda p: (-p.memory_slices, -p.compute_slices, p.id))
    for profile in ordered:
        if not profile.has_media_extensions:
            yield from free_placements(board, profile, taken)
