"""The rules that tessera is compared with, as costs of a spot; and free repacking, the bound."""

import numpy as np
from numba import njit

from scheduler.core.geometry.arrival_prices import Floats
from scheduler.core.geometry.layout_graph import Ints, LayoutGraph
from scheduler.core.geometry.placement_value import NO_PLACE
from scheduler.replay.mig_simulation import MigFigures, RequestStream, mig_figures, sizes


def first_fit(graph: LayoutGraph) -> Floats:
    """The first GPU that has room, at its lowest start."""
    return np.where(graph.with_instance >= 0, 0.0, NO_PLACE)


def best_fit(graph: LayoutGraph) -> Floats:
    """The GPU with the fewest free memory slices, at its lowest start."""
    free = (graph.board.memory_slices - graph.covered_slices).astype(np.float64)
    return np.where(graph.with_instance >= 0, free[:, None], NO_PLACE)


def least_fragmentation(graph: LayoutGraph) -> Floats:
    """Where fragmentation grows least. The fragmentation of a layout: the sizes of all places that
    are blocked though their profile has no more slices than are free (after arXiv 2511.18906)."""
    free = graph.board.memory_slices - graph.covered_slices
    small = graph.is_plain & (graph.size[None, :] <= free[:, None])
    blocked = small & (graph.overlaps > 0)
    score = (blocked * graph.size).sum(axis=1).astype(np.float64)
    return np.where(graph.with_instance >= 0, score[graph.with_instance] - score[:, None], NO_PLACE)


def free_repacking(graph: LayoutGraph, stream: RequestStream, gpus: int) -> MigFigures:
    """Accepts a request whenever everything that runs could be packed again; see `can_repack`."""
    order, costs = repacking_order(graph)
    found = _repacking(
        stream.profile,
        stream.events,
        stream.counted,
        gpus,
        graph.with_instance,
        graph.first_spots,
        order,
        costs,
        sizes(graph),
    )
    return mig_figures(stream, sizes(graph), gpus * graph.board.memory_slices, found)


def repacking_order(graph: LayoutGraph) -> tuple[Ints, Floats]:
    """Profiles, largest first, and the cost of a spot to the profiles after its own: the sum of the
    squared sizes of their places that it takes away."""
    size = sizes(graph)
    compute = np.array([p.compute_slices for p in graph.board.profiles])
    order = np.lexsort((np.arange(len(size)), -compute, -size))
    turn = np.empty(len(size), np.int64)
    turn[order] = np.arange(len(size))
    places = (graph.with_instance >= 0) * graph.size.astype(np.float64) ** 2
    costs = np.full(graph.with_instance.shape, NO_PLACE)
    for profile in range(len(size)):
        later = turn[graph.profile_of] > turn[profile]
        left = places[:, later].sum(axis=1)
        for spot in np.flatnonzero(graph.profile_of == profile):
            after = graph.with_instance[:, spot]
            costs[:, spot] = np.where(after >= 0, left - left[after], NO_PLACE)
    return order.astype(np.int32), costs


@njit(cache=True)
def can_repack(
    number: Ints, gpus: int, after: Ints, starts: Ints, order: Ints, costs: Floats
) -> bool:
    """Whether `number` instances of each profile fit on `gpus` empty boards.

    Largest profiles first, each where it takes least from those after it. On the known boards this
    is exact: the tests compare it with an integer programme.
    """
    have = np.zeros(len(after), np.int64)
    have[0] = gpus
    present = np.empty(len(after), np.int64)
    present[0] = 0
    kinds = 1
    for kind in order:
        need = number[kind]
        while need > 0:
            best, best_i, best_spot = np.inf, -1, -1
            for i in range(kinds):
                if have[present[i]] == 0:
                    continue
                for spot in range(starts[kind], starts[kind + 1]):
                    if costs[present[i], spot] < best:
                        best, best_i, best_spot = costs[present[i], spot], i, spot
            if best_i < 0:
                return False
            source = present[best_i]
            taken = min(need, have[source])
            target = after[source, best_spot]
            have[source] -= taken
            if have[target] == 0:
                known = False
                for i in range(kinds):
                    known = known or present[i] == target
                if not known:
                    present[kinds] = target
                    kinds += 1
            have[target] += taken
            need -= taken
    return True


@njit(cache=True)
def _repacking(
    profile: Ints,
    events: Ints,
    counted: int,
    gpus: int,
    after: Ints,
    starts: Ints,
    order: Ints,
    costs: Floats,
    size: Ints,
) -> tuple[float, float, float, float, float, float, float]:
    number = np.zeros(len(order), np.int32)
    runs = np.zeros(len(profile), np.bool_)
    served, busy, seen, accepted, slices = 0.0, 0.0, 0.0, 0.0, 0
    filling = events[-1] > 0
    for event in events:
        request = abs(event) - 1
        kind = profile[request]
        if event < 0:
            if runs[request]:
                number[kind] -= 1
                slices -= size[kind]
            continue
        number[kind] += 1
        counts = request >= counted
        if can_repack(number, gpus, after, starts, order, costs):
            runs[request] = True
            slices += size[kind]
            served += counts * size[kind]
            accepted += counts
        else:
            number[kind] -= 1
        if counts:
            busy, seen = (float(slices), 1.0) if filling else (busy + slices, seen + 1)
    return served, busy, 0.0, seen, 0.0, 0.0, accepted
