"""A cluster of equal MIG boards under a stream of requests for slices; compiled.

Idle slots are carved anew whenever a placement asks for it, as the planner does with idle slices,
so a GPU's state is the layout of its running instances. Idle instances stay `warm` until another
one is made in their slots.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from scheduler.core.geometry.arrival_prices import Floats
from scheduler.core.geometry.layout_graph import Ints, LayoutGraph
from scheduler.core.geometry.placement_value import min_empty_gpus
from scheduler.replay.mig_choices import (
    LayoutTables,
    cheapest,
    layout_tables,
    room_by_move,
    room_by_moves,
)
from scheduler.replay.mig_moves import DEPTH, MoveTables, best_joint_plan, move_tables

# With lifetimes: mean lifetimes until the cluster has filled, and those that are counted.
SETTLING, COUNTED = 6.0, 60.0
ARRIVED_PCT = 130


@dataclass(frozen=True, slots=True, eq=False)
class RequestStream:
    """Requests in order of arrival, by number of profile, and the events: +n is the arrival of
    request n - 1, -n its departure. `counted`: the first request that the figures count."""

    profile: Ints
    events: Ints
    counted: int


@dataclass(frozen=True, slots=True)
class MigFigures:
    """The figures of one run; the names are the keys of its JSON. Demand in memory slices."""

    accepted_pct: float
    allocated_pct: float
    gpus_in_use: float
    repartitions: int
    moves: int
    accepted: int
    requests: int


@dataclass(frozen=True, slots=True, eq=False)
class PlacementRule:
    """How to place: at the spot with the lowest cost."""

    costs: Floats
    """Layouts x spots."""
    prefer: float = 0.0
    """Taken off the cost if an idle slice of the profile is ready there."""
    moves: int = 0
    """At most this many running instances move if nothing fits otherwise."""
    together: MoveTables | None = None
    """With `moves`: at every request, choose the place and one move as one plan. Ready slices then
    do not count."""
    gain: float = 0.0
    """By how much a plan with a move must beat the best one without."""
    roomy: Floats | None = None
    """Other costs while many GPUs are empty."""


def inflation(graph: LayoutGraph, weights: Floats, gpus: int, seed: int) -> RequestStream:
    """Arrivals until 130 % of the slices were requested; nothing leaves."""
    random = np.random.default_rng(seed)
    slots = gpus * graph.board.memory_slices
    size = sizes(graph)
    drawn = random.choice(len(size), size=2 * slots, p=weights).astype(np.int32)
    asked = np.cumsum(size[drawn])
    profile = drawn[: int(np.searchsorted(asked, slots * ARRIVED_PCT / 100)) + 1]
    return RequestStream(profile, np.arange(1, len(profile) + 1, dtype=np.int32), 0)


def churn(graph: LayoutGraph, weights: Floats, gpus: int, load: float, seed: int) -> RequestStream:
    """Poisson arrivals that offer `load` of the slices, with exponential lifetimes."""
    random = np.random.default_rng(seed)
    rate = load * gpus * graph.board.memory_slices / float(weights @ sizes(graph))
    number = int(rate * (SETTLING + COUNTED))
    profile = random.choice(len(weights), size=number, p=weights).astype(np.int32)
    arrives = np.cumsum(random.exponential(1 / rate, number))
    leaves = arrives + random.exponential(1.0, number)
    ids = np.arange(1, number + 1, dtype=np.int32)
    order = np.argsort(np.concatenate([arrives, leaves]), kind="stable")
    events = np.concatenate([ids, -ids])[order]
    return RequestStream(profile, events, int(rate * SETTLING))


def sizes(graph: LayoutGraph) -> Ints:
    """Memory slices by profile."""
    found: Ints = graph.size[graph.first_spots[:-1]]
    return found


def run(graph: LayoutGraph, stream: RequestStream, gpus: int, rule: PlacementRule) -> MigFigures:
    """The stream through one policy."""
    nothing = move_tables(graph, np.zeros(len(graph.profile_names)))
    found = _run(
        stream.profile,
        stream.events,
        stream.counted,
        gpus,
        rule.costs,
        rule.costs if rule.roomy is None else rule.roomy,
        min_empty_gpus(gpus),
        rule.prefer,
        rule.moves,
        np.inf if rule.together is None else rule.gain,
        layout_tables(graph),
        _clashes(graph),
        graph.size,
        nothing if rule.together is None else rule.together,
        np.array(DEPTH),
    )
    return mig_figures(stream, sizes(graph), gpus * graph.board.memory_slices, found)


def mig_figures(
    stream: RequestStream, size: Ints, slots: int, totals: tuple[float, ...]
) -> MigFigures:
    served, busy, in_use, events, repartitions, moved, accepted = totals
    asked = int(size[stream.profile[stream.counted :]].sum())
    return MigFigures(
        accepted_pct=100 * served / asked,
        allocated_pct=100 * busy / events / slots,
        gpus_in_use=in_use / events,
        repartitions=int(repartitions),
        moves=int(moved),
        accepted=int(accepted),
        requests=len(stream.profile) - stream.counted,
    )


def _clashes(graph: LayoutGraph) -> Ints:
    masks = np.array([place.mask for place in graph.spots])
    found: Ints = ((masks[:, None] & masks[None, :]) != 0).astype(np.int32)
    return found


@njit(cache=True)
def _run(
    profile: Ints,
    events: Ints,
    counted: int,
    gpus: int,
    costs: Floats,
    roomy: Floats,
    many: int,
    prefer: float,
    moves: int,
    gain: float,
    board: LayoutTables,
    clashes: Ints,
    size: Ints,
    reaches: MoveTables,
    depth: Floats,
) -> tuple[float, float, float, float, float, float, float]:
    after, before, starts, profile_of = board
    spots = len(size)
    lay = np.zeros(gpus, np.int32)
    warm = np.zeros((gpus, spots), np.int32)
    # The request at each spot: its number + 1; 0 = none.
    holder = np.zeros((gpus, spots), np.int32)
    at_gpu = np.full(len(profile), -1, np.int32)
    at_spot = np.full(len(profile), -1, np.int32)
    served, busy, in_use, seen = 0.0, 0.0, 0.0, 0.0
    repartitions, moved, accepted = 0.0, 0.0, 0.0
    slices, carved = 0, 0
    filling = events[-1] > 0
    for event in events:
        number = abs(event) - 1
        if event < 0:
            gpu, spot = at_gpu[number], at_spot[number]
            if gpu < 0:
                continue
            lay[gpu] = before[lay[gpu], spot]
            holder[gpu, spot] = 0
            warm[gpu, spot] = 1
            slices -= size[spot]
            carved -= lay[gpu] == 0
            continue
        kind = profile[number]
        falls = roomy if gpus - carved >= many else costs
        gpu, spot, _ = cheapest(lay, warm, falls, starts[kind], starts[kind + 1], prefer)
        counts = number >= counted
        plan = np.array(((gpu, spot, -1, -1),), dtype=np.int32)
        if moves > 0 and gain < np.inf:
            plan = best_joint_plan(lay, holder, board, costs, kind, reaches, depth, gain)
        elif moves > 0 and gpu < 0:
            gpu, old, new, _ = room_by_move(lay, holder, board, costs, kind)
            if gpu >= 0:
                plan = np.array(((gpu, old, -1, -1), (gpu, new, -1, -1)), dtype=np.int32)
        if moves > 1 and (len(plan) == 0 or plan[-1, 0] < 0):
            plan, _ = room_by_moves(lay, holder, board, costs, kind, moves)
        if len(plan) > 0 and plan[-1, 0] >= 0:
            # Moves come first, together: one may go where another leaves.
            last = len(plan) - 1
            who = np.empty(last + 1, np.int32)
            for step in range(last):
                old_gpu, old_spot = plan[step, 0], plan[step, 1]
                who[step] = holder[old_gpu, old_spot] - 1
                holder[old_gpu, old_spot] = 0
                warm[old_gpu, old_spot] = 1
                lay[old_gpu] = before[lay[old_gpu], old_spot]
                carved -= lay[old_gpu] == 0
            for step in range(last, -1, -1):
                if step == last:
                    mine, to_gpu, to_spot = number, plan[step, 0], plan[step, 1]
                else:
                    mine, to_gpu, to_spot = who[step], plan[step, 2], plan[step, 3]
                    if to_gpu < 0:  # one that moves alone goes where it costs least now
                        moved_kind = profile_of[plan[step, 1]]
                        to_gpu, to_spot, _ = cheapest(
                            lay, warm, costs, starts[moved_kind], starts[moved_kind + 1], prefer
                        )
                carved += lay[to_gpu] == 0
                lay[to_gpu] = after[lay[to_gpu], to_spot]
                holder[to_gpu, to_spot] = mine + 1
                at_gpu[mine], at_spot[mine] = to_gpu, to_spot
                if warm[to_gpu, to_spot] == 0:
                    anew = 0
                    for other in range(spots):
                        if warm[to_gpu, other] > 0 and clashes[to_spot, other] > 0:
                            warm[to_gpu, other] = 0
                            anew = 1
                    repartitions += anew * counts
                warm[to_gpu, to_spot] = 0
            slices += size[plan[last, 1]]
            accepted += counts
            moved += last * counts
            served += counts * size[starts[kind]]
        if counts:
            if filling:
                busy, in_use, seen = float(slices), float(carved), 1.0
            else:
                busy, in_use, seen = busy + slices, in_use + carved, seen + 1
    return served, busy, in_use, seen, repartitions, moved, accepted
