"""How much room a GPU's running instances leave for what will come: one number per layout.

V = window value + HOLE x hole value, over the profiles that the mix asks for (all plain ones where
it is unknown; the largest always counts as a window, so that empty GPUs stay empty). Where the mix
is unknown a hole weighs HOLE_UNKNOWN: small instances then gather on one half of a board.
Window value: every place where a profile could stand counts its size, times the chance that it
comes free in time: the product over j = 1..n of j / (j + RETURN) for n instances in its way.
Hole value: the most that can still be placed together beside what runs, each profile counted by
its size less the price of its arrivals (`prices`).
A placement goes where V falls least. While many GPUs of a board are empty, one more that is begun
costs little: chances are then those of RETURN_ROOMY, by which instances keep a place for those that
may stand in few. docs/scheduling-mig.md says how the constants were chosen.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from agents.contract.boards import Board
from agents.contract.geometry import Placement
from agents.contract.layouts import layouts
from scheduler.core.geometry.arrival_prices import arrival_prices
from scheduler.core.geometry.layout_graph import Shape, shape

# A memory slice of hole against one of window: large, so that windows decide between equal holes.
HOLE = 25.0
# Where the mix is unknown. Up to 8 it keeps the largest place free beside three small instances;
# that costs up to 1 point of accepted demand on small mixes that nothing leaves, nothing else.
HOLE_UNKNOWN = 5.0
# The j-th instance in a window's way leaves in time with chance j / (j + RETURN).
RETURN = 20.0
# The same while at least ROOMY of a board's GPUs are empty, and two of them.
RETURN_ROOMY, ROOMY = 1.0, 0.15
# An idle instance that is ready starts at once: it wins where V falls by at most this much more
# than elsewhere. To delete one costs as much. It saves a quarter of the deletions for nothing that
# can be measured; eight times as much saves a third for 0.1 points of accepted demand.
READY = 0.25
NEVER = np.inf

# How often each profile of a board is asked for, by name, in order of name. Empty = unknown.
Weights = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """V of every layout of one board, and `falls` (layouts x spots): how much V falls by one more
    instance there; infinite where none can be made. `roomy`: the same while many GPUs are empty."""

    shape: Shape
    value: NDArray[np.float64]
    falls: NDArray[np.float64]
    roomy: NDArray[np.float64]

    def fall(
        self, held: Iterable[Placement], place: Placement, *, among_empty: bool = False
    ) -> float:
        """How much V falls when `place` is made beside `held`; infinite where it cannot be."""
        number, spot = self.shape.number(held), self.shape.spot(place)
        if number < 0 or spot < 0:
            return NEVER
        return float((self.roomy if among_empty else self.falls)[number, spot])


def many_empty(gpus: int) -> int:
    """How many GPUs of a board have to be empty for `roomy` to hold."""
    return max(2, ceil(ROOMY * gpus))


def weights_of(mix: Mapping[str, float]) -> Weights:
    """A mix in the order that tables are remembered by; shares to four places, so that a mix which
    hardly changed finds the table again."""
    total = sum(mix.values())
    shares = ((name, round(count / total, 4)) for name, count in mix.items() if count > 0)
    return tuple(sorted((name, share) for name, share in shares if share > 0))


@lru_cache(256)
def values(
    board: Board, mix: Weights = (), hole: float | None = None, returns: float = RETURN
) -> Values | None:
    """The table of a board under a mix; None where the board has no table of layouts. The
    constants are the planner's unless they are given."""
    here = shape(board)
    if here is None:
        return None
    shares = dict(mix)
    weights = np.array([shares.get(name, 0.0) for name in here.names])
    counts = weights[here.profile_of] > 0 if mix else here.plain
    largest = here.plain & (here.size == here.board.memory_slices)
    if hole is None:
        hole = HOLE if mix else HOLE_UNKNOWN
    holes = hole * hole_values(here, weights, counts)
    value, falls = _falls(here, window_values(here, counts | largest, returns) + holes)
    roomy = falls
    if mix:
        _, roomy = _falls(here, window_values(here, counts | largest, RETURN_ROOMY) + holes)
    return Values(here, value, falls, roomy)


def _falls(
    shape: Shape, room: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    worth: NDArray[np.float64] = np.round(room, 6).astype(np.float64)
    falls = worth[:, None] - worth[shape.after]
    falls[shape.after < 0] = NEVER
    return worth, np.round(falls, 6)


def window_values(
    shape: Shape, counts: NDArray[np.bool_], returns: float = RETURN
) -> NDArray[np.float64]:
    """By layout, over the spots that count, in memory slices."""
    most = int(shape.overlaps.max())
    steps = [1.0, *(j / (j + returns) for j in range(1, most + 1))]
    chances: NDArray[np.float64] = np.cumprod(np.array(steps))
    sizes = np.where(counts, shape.size.astype(np.float64), 0.0)
    found: NDArray[np.float64] = chances[shape.overlaps] @ sizes
    return found


def hole_values(
    shape: Shape, weights: NDArray[np.float64], counts: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """By layout, the most worth that fits beside it together, in memory slices."""
    worth = shape.size - arrival_prices(shape, weights)[shape.profile_of]
    hole = np.zeros(len(shape.after))
    for level in reversed(shape.order):
        after = shape.after[level]
        grown = np.where((after >= 0) & counts, worth + hole[after], 0.0)
        hole[level] = grown.max(axis=1)
    return hole


def fall(board: Board, held: Iterable[Placement], place: Placement, mix: Weights = ()) -> float:
    """How much V falls when `place` is made beside `held`; infinite where it cannot be.

    A layout that our rules forbid though a driver reports it, and a board without a table, are
    judged by the windows that are lost.
    """
    held = tuple(held)
    table = values(board, mix)
    if table is not None and table.shape.number(held) >= 0:
        return table.fall(held, place)
    rooms = layouts(board)
    before = rooms.beside(held)
    if place not in before.free.get(place.profile, ()):
        return NEVER
    return float(before.left - rooms.beside((*held, place)).left)
