"""Chooses together where a request goes and which running slice moves for it; compiled.

A plan is judged by V (`geometry.placement_value`, with the constants below) plus what the whole
cluster could take next: each profile's share of the mix times its size, times DEPTH by how many
running slices would have to move first. V alone adds up GPUs one by one, so that a second empty GPU
counts as much as the first.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit

from scheduler.core.geometry.arrival_prices import Floats
from scheduler.core.geometry.layout_graph import Ints, LayoutGraph
from scheduler.replay.mig_choices import LayoutTables, two_cheapest

# V if slices may move: holes count little, as moves can gather them.
HOLE, RETURN = 1.0, 3.0
# Slices of V for a slice of the next request that fits at once, and what is left of it by the
# number of slices that have to move first (0 to 3; more: nothing).
AHEAD = 180.0
DEPTH = (1.0, 0.95, 0.45, 0.15)
# The best places without a move that are tried with every move.
MAX_PLACES = 4


class MoveTables(NamedTuple):
    """By layout: what could be placed beside it, sets of profiles as bits.

    `room` (L): fits. `within` (L): fits once one instance moves on this very GPU. `out` (L x P):
    the profiles of which one that leaves makes room. `clear`, `weight` (L x P): the fewest
    instances in the way of one, and their memory slices. `free` (L): memory slices not covered.
    `worth` (P): AHEAD x share of the mix x memory slices.
    """

    room: Ints
    within: Ints
    out: Ints
    clear: Ints
    weight: Ints
    free: Ints
    worth: Floats


def move_tables(graph: LayoutGraph, weights: Floats) -> MoveTables:
    """The tables of a board under a mix (P)."""
    return MoveTables(
        *_of_layouts(graph), worth=AHEAD * weights * graph.size[graph.first_spots[:-1]]
    )


@lru_cache(16)
def _of_layouts(graph: LayoutGraph) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    masks = np.array([place.mask for place in graph.spots])
    clash = (masks[:, None] & masks[None, :]) != 0
    arrays = (
        graph.with_instance,
        graph.without_instance,
        graph.first_spots,
        graph.profile_of,
        graph.size,
        clash,
    )
    free: Ints = (graph.board.memory_slices - graph.covered_slices).astype(np.int32)
    return *_reach(*arrays), free


@njit(cache=True)
def _reach(
    after: Ints, before: Ints, starts: Ints, profile_of: Ints, size: Ints, clash: Ints
) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    many, spots = after.shape
    kinds = len(starts) - 1
    room, within = np.zeros(many, np.int32), np.zeros(many, np.int32)
    out = np.zeros((many, kinds), np.int32)
    clear, weight = np.full((many, kinds), spots, np.int32), np.zeros((many, kinds), np.int32)
    for lay in range(many):
        for new in range(spots):
            kind, number, total = profile_of[new], 0, 0
            if after[lay, new] >= 0:
                room[lay] |= 1 << kind
            for old in range(spots):
                if before[lay, old] >= 0 and clash[new, old]:
                    number += 1
                    total += size[old]
            if (number, total) < (clear[lay, kind], weight[lay, kind]):
                clear[lay, kind], weight[lay, kind] = number, total
        for old in range(spots):
            left, moved = before[lay, old], profile_of[old]
            if left < 0:
                continue
            for new in range(spots):
                made = after[left, new]
                if made >= 0:
                    out[lay, profile_of[new]] |= 1 << moved
                    if (after[made, starts[moved] : starts[moved + 1]] >= 0).any():
                        within[lay] |= 1 << profile_of[new]
    return room, within, out, clear, weight


@njit(cache=True)
def next_request_value(lay: Ints, reaches: MoveTables, depth: Floats) -> float:
    """What the next request would find on GPUs in the layouts `lay` (G), in slices of V."""
    some, more, free, total = 0, 0, 0, 0.0
    for gpu in range(len(lay)):
        here = reaches.room[lay[gpu]]
        more |= some & here
        some |= here
        free += reaches.free[lay[gpu]]
    for kind in range(len(reaches.worth)):
        if reaches.worth[kind] <= 0:
            continue
        moves = 0 if some >> kind & 1 else len(depth)
        for gpu in range(len(lay)):
            if moves <= 1:
                break
            here = lay[gpu]
            elsewhere = more | (some & ~reaches.room[here])
            if reaches.within[here] >> kind & 1 or reaches.out[here, kind] & elsewhere:
                moves = 1
            elif reaches.weight[here, kind] <= free - reaches.free[here]:
                moves = min(moves, max(2, reaches.clear[here, kind]))
        if moves < len(depth):
            total += reaches.worth[kind] * depth[moves]
    return total


@njit(cache=True)
def best_joint_plan(
    lay: Ints,
    movable: Ints,
    board: LayoutTables,
    falls: Floats,
    kind: int,
    reaches: MoveTables,
    depth: Floats,
    gain: float,
) -> Ints:
    """The best plan for one more instance of profile `kind`: a row (GPU, spot, -1, -1) for it, and
    before that one (GPU, spot, GPU, spot) for where another one is and goes; no rows where even a
    move makes no room. `movable` (G x S): above 0 where an instance stands that may be moved. A
    plan with a move must be better by more than `gain`."""
    after, before, starts, profile_of = board
    work, twin = lay.copy(), np.empty(len(lay), np.int32)
    first_in = np.full(len(after), -1, np.int32)
    for gpu in range(len(lay)):  # of equal GPUs the first is tried
        if first_in[lay[gpu]] < 0:
            first_in[lay[gpu]] = gpu
        twin[gpu] = first_in[lay[gpu]]
    most = reaches.worth.sum() * depth[0]
    best, plan = -np.inf, np.full((2, 4), -1, np.int32)
    places = _places(lay, twin, falls, starts[kind], starts[kind + 1])
    for row in range(-1, len(places)):
        # Row -1: no place yet; the new one goes where the one that moves makes room.
        at, spot, fall = -1, -1, 0.0
        first, last = starts[kind], starts[kind + 1]
        if row >= 0:
            at, spot, first, last = places[row, 0], places[row, 1], -1, 0
            fall = falls[work[at], spot]
            work[at] = after[work[at], spot]
            worth = gain - fall + next_request_value(work, reaches, depth)
            if worth > best:
                best, plan[0, 0], plan[1, 0], plan[1, 1] = worth, -1, at, spot
        where, least = two_cheapest(work, falls, starts)
        for gpu in range(len(lay)):
            if twin[gpu] != gpu and twin[gpu] != at:
                continue
            here = work[gpu]
            for old in range(len(profile_of)):
                if movable[gpu, old] <= 0:
                    continue
                moved, left = profile_of[old], before[here, old]
                for new in range(first, last):
                    made, lost = left, fall - falls[left, old]
                    if new >= 0:
                        if after[left, new] < 0:
                            continue
                        made, lost = after[left, new], lost + falls[left, new]
                    side = 1 if where[moved, 0] == gpu else 0
                    home, cost, to = where[moved, side], least[moved, side], -1
                    for other in range(starts[moved], starts[moved + 1]):
                        if falls[made, other] < cost and other != old:
                            home, cost, to = gpu, falls[made, other], other
                    if home < 0 or most - lost - cost <= best:
                        continue
                    work[gpu] = made
                    beside = work[home]
                    if to < 0:
                        there = falls[beside, starts[moved] : starts[moved + 1]]
                        to = starts[moved] + there.argmin()
                    work[home] = after[beside, to]
                    worth = next_request_value(work, reaches, depth) - lost - cost
                    work[home] = beside
                    work[gpu] = here
                    if worth > best:
                        best = worth
                        plan[0, 0], plan[0, 1], plan[0, 2], plan[0, 3] = gpu, old, home, to
                        plan[1, 0], plan[1, 1] = (at, spot) if row >= 0 else (gpu, new)
        if row >= 0:
            work[at] = lay[at]
    if plan[1, 0] < 0:
        return plan[:0]
    return plan[1:] if plan[0, 0] < 0 else plan


@njit(cache=True)
def _places(lay: Ints, twin: Ints, falls: Floats, first: int, last: int) -> Ints:
    """Rows (GPU, spot): where V falls least, PLACES at most, the least first."""
    rows = np.empty((len(lay) * (last - first), 2), np.int32)
    cost, number = np.empty(len(rows)), 0
    for gpu in range(len(lay)):
        for spot in range(first, last):
            if twin[gpu] == gpu and falls[lay[gpu], spot] < np.inf:
                rows[number, 0], rows[number, 1] = gpu, spot
                cost[number] = falls[lay[gpu], spot]
                number += 1
    found: Ints = rows[np.argsort(cost[:number], kind="mergesort")[:MAX_PLACES]]
    return found
