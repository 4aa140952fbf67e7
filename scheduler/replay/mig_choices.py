"""The choices over many GPUs of one board, compiled: numbers of layouts in, GPU and spot out.

`lay` (G): the layout of each GPU by its number in `LayoutGraph`; `falls` (layouts x spots): what a
spot costs; `starts` (P + 1): where each profile's spots begin. Ties go to the lowest GPU, then the
lowest start.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from scheduler.core.geometry.arrival_prices import Floats
from scheduler.core.geometry.layout_graph import Ints, LayoutGraph

NOWHERE = -1


class LayoutTables(NamedTuple):
    """The columns of a `LayoutGraph` that compiled code reads, under the same names."""

    after: Ints
    before: Ints
    starts: Ints
    profile_of: Ints


def layout_tables(graph: LayoutGraph) -> LayoutTables:
    return LayoutTables(
        graph.with_instance, graph.without_instance, graph.first_spots, graph.profile_of
    )


@njit(cache=True)
def cheapest(
    lay: Ints, warm_slices: Ints, falls: Floats, first: int, last: int, prefer: float
) -> tuple[int, int, float]:
    """(GPU, spot, cost) for one more instance of the profile with the spots `first` to `last` - 1;
    (-1, -1, inf) where it fits nowhere. A spot with an idle instance of the very profile (`warm`,
    G x S, above 0) costs `prefer` less."""
    best_gpu, best_spot, best = NOWHERE, NOWHERE, np.inf
    for gpu in range(len(lay)):
        row = falls[lay[gpu]]
        for spot in range(first, last):
            cost = row[spot]
            if cost < np.inf and warm_slices[gpu, spot] > 0:
                cost -= prefer
            if cost < best:
                best_gpu, best_spot, best = gpu, spot, cost
    return best_gpu, best_spot, best


@njit(cache=True)
def two_cheapest(lay: Ints, falls: Floats, starts: Ints) -> tuple[Ints, Floats]:
    """By profile, the GPU where one more costs least and the next one (P x 2, -1 = none), and what
    it costs there (P x 2)."""
    kinds = len(starts) - 1
    where, cost = np.full((kinds, 2), NOWHERE, np.int32), np.full((kinds, 2), np.inf)
    for kind in range(kinds):
        for gpu in range(len(lay)):
            least = np.inf
            for spot in range(starts[kind], starts[kind + 1]):
                least = min(least, falls[lay[gpu], spot])
            if least < cost[kind, 0]:
                where[kind, 1], cost[kind, 1] = where[kind, 0], cost[kind, 0]
                where[kind, 0], cost[kind, 0] = gpu, least
            elif least < cost[kind, 1]:
                where[kind, 1], cost[kind, 1] = gpu, least
    return where, cost


@njit(cache=True)
def room_by_move(
    lay: Ints, movable: Ints, board: LayoutTables, falls: Floats, kind: int
) -> tuple[int, int, int, float]:
    """The one running instance whose move makes room for one of profile `kind` with the least total
    fall: (GPU, its spot, the new one's spot, cost), or GPU -1 and inf.

    `movable` (G x S): above 0 where a restartable instance stands. It goes to another GPU, or
    elsewhere on its own: wherever `cheapest` says once the new one is there.
    """
    after, before, starts, profile_of = board
    where, least = two_cheapest(lay, falls, starts)
    best_gpu, best_old, best_new, best = NOWHERE, NOWHERE, NOWHERE, np.inf
    for gpu in range(len(lay)):
        for old in range(len(profile_of)):
            if movable[gpu, old] <= 0:
                continue
            left, moved = before[lay[gpu], old], profile_of[old]
            elsewhere = least[moved, 1] if where[moved, 0] == gpu else least[moved, 0]
            for new in range(starts[kind], starts[kind + 1]):
                made = after[left, new]
                if made < 0:
                    continue
                here = falls[made, starts[moved] : starts[moved + 1]].min()
                cost = falls[left, new] - falls[left, old] + min(here, elsewhere)
                if cost < best:
                    best_gpu, best_old, best_new, best = gpu, old, new, cost
    return best_gpu, best_old, best_new, best


@njit(cache=True)
def room_by_moves(
    lay: Ints, movable: Ints, board: LayoutTables, falls: Floats, kind: int, max_moves: int
) -> tuple[Ints, float]:
    """As `room_by_move`, with two to `most` instances of one GPU that move: rows (GPU, spot, GPU,
    spot) of where each is and goes, the last row (GPU, spot, -1, -1) for the new one; and the cost.
    No rows where nothing helps. All that move leave before the first arrives."""
    after, before, starts, _ = board
    best, best_cost = np.empty((0, 4), np.int32), np.inf
    work = lay.copy()
    for gpu in range(len(lay)):
        here = np.flatnonzero(movable[gpu] > 0).astype(np.int32)
        for chosen in range(1, 1 << len(here)):
            out = here[np.array([chosen >> i & 1 == 1 for i in range(len(here))], dtype=np.bool_)]
            if not 2 <= len(out) <= max_moves:
                continue
            left, gain = lay[gpu], 0.0
            for spot in out:
                left = before[left, spot]
                gain += falls[left, spot]
            for new in range(starts[kind], starts[kind + 1]):
                if after[left, new] < 0:
                    continue
                work[gpu] = after[left, new]
                rows, cost = _rehoused(work, gpu, out, board, falls)
                work[:] = lay
                cost += falls[left, new] - gain
                if cost < best_cost:
                    best, best_cost = rows, cost
                    best[-1, 0], best[-1, 1] = gpu, new
    return best, best_cost


@njit(cache=True)
def _rehoused(
    work: Ints, gpu: int, out: Ints, board: LayoutTables, falls: Floats
) -> tuple[Ints, float]:
    """Each of `out` of `gpu` in turn to where it costs least; changes `work`."""
    after, _, starts, profile_of = board
    rows, total = np.full((len(out) + 1, 4), NOWHERE, np.int32), 0.0
    for number in range(len(out)):
        kind = profile_of[out[number]]
        to_gpu, to_spot, least = NOWHERE, NOWHERE, np.inf
        for other in range(len(work)):
            for spot in range(starts[kind], starts[kind + 1]):
                if falls[work[other], spot] < least:
                    to_gpu, to_spot, least = other, spot, falls[work[other], spot]
        total += least
        if to_gpu < 0:
            break
        work[to_gpu] = after[work[to_gpu], to_spot]
        rows[number] = np.array((gpu, out[number], to_gpu, to_spot), dtype=np.int32)
    return rows, total
