"""The value V of each layout: how much room a GPU's running instances leave for future requests.

V = window value + HOLE_WEIGHT x hole value, over the profiles that the mix requests. If the mix is
unknown, all plain profiles count, and HOLE_WEIGHT_UNKNOWN_MIX gathers small instances on one half
of a board. The largest profile always counts as a window, so that empty GPUs stay empty.

Window value: every place of a profile counts its size times the chance that it becomes free in
time: the product over j = 1..n of j / (j + DEPARTURE_RARITY) for n instances in its way.
Hole value: the most that can still be placed together beside the running instances. Each profile
counts its size less the price of its arrivals (`arrival_prices`).

A placement goes where V falls least. While many GPUs of a board are empty, starting on one more of
them costs little: DEPARTURE_RARITY_ROOMY then keeps places free for profiles that have few.
docs/research/mig-packing.md describes how the constants were chosen.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from agents.contract.boards import Board
from agents.contract.geometry import Placement
from agents.contract.layouts import layout_table
from scheduler.core.geometry.arrival_prices import arrival_prices
from scheduler.core.geometry.layout_graph import LayoutGraph, layout_graph

# A memory slice of hole relative to one of window: large, so that windows only decide between equal
# holes.
HOLE_WEIGHT = 25.0
# For an unknown mix. Up to 8 it keeps the largest place free beside three small instances. That
# costs up to 1 point of accepted demand on small mixes without departures, and nothing otherwise.
HOLE_WEIGHT_UNKNOWN_MIX = 5.0
# The j-th instance in the way of a window leaves in time with chance j / (j + DEPARTURE_RARITY).
DEPARTURE_RARITY = 20.0
# The same while at least ROOMY_SHARE of the GPUs of a board, and at least two, are empty.
DEPARTURE_RARITY_ROOMY, ROOMY_SHARE = 1.0, 0.15
# An idle instance that is ready starts at once, so it wins if V falls by at most this much more
# than elsewhere. Deleting one costs the same. This saves a quarter of the deletions at no
# measurable cost; eight times this value saves a third for 0.1 points of accepted demand.
READY_BONUS = 0.25
NO_PLACE = np.inf

# How often each profile of a board is requested, in the order of their names. Empty = unknown.
ProfileWeights = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class LayoutValues:
    """V of every layout of one board."""

    graph: LayoutGraph
    value: NDArray[np.float64]
    losses: NDArray[np.float64]
    """(layouts x spots) How much V falls if an instance is made there; infinite if it cannot be."""
    losses_when_roomy: NDArray[np.float64]
    """The same while many GPUs are empty."""

    def loss(
        self, allocated: Iterable[Placement], place: Placement, *, is_roomy: bool = False
    ) -> float:
        """How much V falls if `place` is made beside `allocated`; infinite if it cannot be."""
        number, spot = self.graph.layout_number(allocated), self.graph.spot_number(place)
        if number < 0 or spot < 0:
            return NO_PLACE
        return float((self.losses_when_roomy if is_roomy else self.losses)[number, spot])


def min_empty_gpus(gpus: int) -> int:
    """How many of a board's GPUs must be empty for `losses_when_roomy` to apply."""
    return max(2, ceil(ROOMY_SHARE * gpus))


def profile_weights(mix: Mapping[str, float]) -> ProfileWeights:
    """A mix as the key of the table cache. Shares have four decimals, so that a mix that hardly
    changed finds its table again."""
    total = sum(mix.values())
    shares = ((name, round(count / total, 4)) for name, count in mix.items() if count > 0)
    return tuple(sorted((name, share) for name, share in shares if share > 0))


@lru_cache(256)
def layout_values(
    board: Board,
    mix: ProfileWeights = (),
    hole_weight: float | None = None,
    departure_rarity: float = DEPARTURE_RARITY,
) -> LayoutValues | None:
    """The table of a board under a mix; None if the board has no layout graph.

    The constants default to the planner's; the MIG replay varies them."""
    graph = layout_graph(board)
    if graph is None:
        return None
    shares = dict(mix)
    weights = np.array([shares.get(name, 0.0) for name in graph.profile_names])
    counts = weights[graph.profile_of] > 0 if mix else graph.is_plain
    largest = graph.is_plain & (graph.size == graph.board.memory_slices)
    if hole_weight is None:
        hole_weight = HOLE_WEIGHT if mix else HOLE_WEIGHT_UNKNOWN_MIX
    holes = hole_weight * hole_values(graph, weights, counts)
    value, losses = _losses(graph, window_values(graph, counts | largest, departure_rarity) + holes)
    roomy = losses
    if mix:
        _, roomy = _losses(
            graph, window_values(graph, counts | largest, DEPARTURE_RARITY_ROOMY) + holes
        )
    return LayoutValues(graph, value, losses, roomy)


def _losses(
    graph: LayoutGraph, room: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    worth: NDArray[np.float64] = np.round(room, 6).astype(np.float64)
    losses = worth[:, None] - worth[graph.with_instance]
    losses[graph.with_instance < 0] = NO_PLACE
    return worth, np.round(losses, 6)


def window_values(
    graph: LayoutGraph, counts: NDArray[np.bool_], departure_rarity: float = DEPARTURE_RARITY
) -> NDArray[np.float64]:
    """The window value of each layout over the spots that count, in memory slices."""
    max_overlaps = int(graph.overlaps.max())
    steps = [1.0, *(j / (j + departure_rarity) for j in range(1, max_overlaps + 1))]
    chances: NDArray[np.float64] = np.cumprod(np.array(steps))
    sizes = np.where(counts, graph.size.astype(np.float64), 0.0)
    values_by_layout: NDArray[np.float64] = chances[graph.overlaps] @ sizes
    return values_by_layout


def hole_values(
    graph: LayoutGraph, weights: NDArray[np.float64], counts: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The hole value of each layout, in memory slices."""
    worth = graph.size - arrival_prices(graph, weights)[graph.profile_of]
    hole = np.zeros(len(graph.with_instance))
    for level in reversed(graph.levels):
        after = graph.with_instance[level]
        grown = np.where((after >= 0) & counts, worth + hole[after], 0.0)
        hole[level] = grown.max(axis=1)
    return hole


def placement_loss(
    board: Board, allocated: Iterable[Placement], place: Placement, mix: ProfileWeights = ()
) -> float:
    """How much V falls if `place` is made beside `allocated`; infinite if it cannot be.

    Without a table, or for a layout that a driver reports against our rules, it is the room that
    the placement takes from others.
    """
    allocated = tuple(allocated)
    table = layout_values(board, mix)
    if table is not None and table.graph.layout_number(allocated) >= 0:
        return table.loss(allocated, place)
    rooms = layout_table(board)
    before = rooms.free_beside(allocated)
    if place not in before.by_profile.get(place.profile, ()):
        return NO_PLACE
    return float(before.room_score - rooms.free_beside((*allocated, place)).room_score)
