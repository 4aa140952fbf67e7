"""Replays the decisions of a run on tables of its own, and measures the result.

It is the same for every policy and shares nothing with any of them: a placement that does not fit
is an error.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from scheduler.core.packing.fragmentation import TypicalKinds
from scheduler.core.packing.kinds import NodeRoom
from scheduler.replay.openb_data import GPU_MILLI, Ints, TracePods

Floats = npt.NDArray[np.float64]
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class PlacementDecisions:
    """By request: its node (NOWHERE: none) and its GPUs there as bits. `seconds`: how long the
    decisions took."""

    node: Ints
    gpus: Ints
    seconds: float

    @property
    def placements(self) -> int:
        return int((self.node >= 0).sum())


class OverbookedError(Exception):
    """A decision took what was not free: a bug of the policy."""


@dataclass(frozen=True, slots=True)
class PlacementTimeline:
    """After each event: thousandths of a GPU arrived, refused, in use, and fragmented (F)."""

    arrived: Ints
    refused: Ints
    in_use: Ints
    fragmented: Floats


def replay_decisions(
    events: Ints, requests: Ints, pods: TracePods, nodes: tuple[NodeRoom, ...],
    decisions: PlacementDecisions, typical: TypicalKinds,
) -> PlacementTimeline:  # fmt: skip
    """`requests`: the pod of each request. Raises OverbookedError."""
    models = 1 + max(node.model for node in nodes)
    kinds = pods.kinds
    course = (np.zeros(len(events), np.int64), np.zeros(len(events), np.int64),
              np.zeros(len(events), np.int64), np.zeros(len(events)))  # fmt: skip
    free = idle_table(nodes)
    wrong = _follow(
        events, pods.kind[requests],
        _table([
            (k.cpu_milli, k.memory_mib, k.gpus, round(k.gpus_each * GPU_MILLI)) for k in kinds
        ]),
        np.array([[k.allows(m) for m in range(models)] for k in kinds]),
        decisions.node, decisions.gpus, free,
        np.array([[node.cpu_milli, node.memory_mib, node.model] for node in nodes], np.int64),
        _table([(k.cpu_milli, k.gpus, round(k.gpus_each * GPU_MILLI)) for k, _ in typical]),
        np.array([share for _, share in typical]),
        np.array([[k.allows(m) for m in range(models)] for k, _ in typical]), course,
    )  # fmt: skip
    if wrong >= 0:
        raise OverbookedError(f"event {wrong} of the run takes what is not free")
    return PlacementTimeline(*course)


def idle_table(nodes: tuple[NodeRoom, ...]) -> Ints:
    """Idle thousandths as [node, GPU]; -1 where the node has no such GPU."""
    most = max(len(node.states) for node in nodes)
    table = np.full((len(nodes), most), -1, np.int64)
    for n, node in enumerate(nodes):
        for g, idle in enumerate(node.states):
            table[n, g] = int(str(idle))
    return table


def _table(rows: list[tuple[int, ...]]) -> Ints:
    return np.array(rows, np.int64)


@njit(cache=True)
def fragmented(idle: Ints, cpu: int, model: int, needs: Ints, share: Floats, may: Ints) -> float:
    """F of one node in thousandths; `needs` [kinds]: CPU, GPUs, thousandths of each GPU."""
    amount = 0.0
    for t in range(needs.shape[0]):
        whole, unfit, fits = 0, 0, 0
        for milli in idle:
            if milli > 0:
                whole += milli
            if milli >= needs[t, 2]:
                fits += 1
            elif milli > 0:
                unfit += milli
        runs = 0 < needs[t, 1] <= fits and needs[t, 0] <= cpu and may[t, model]
        amount += share[t] * (unfit if runs else whole)
    return amount


@njit(cache=True)
def _follow(
    events: Ints, kind: Ints, needs: Ints, allowed: Ints, node: Ints, gpus: Ints, idle: Ints,
    free: Ints, typical: Ints, share: Floats, may: Ints,
    course: tuple[Ints, Ints, Ints, Floats],
) -> int:  # fmt: skip
    """The number of the first event that cannot be, or -1. `needs`: CPU, memory, GPUs, each."""
    arrived, refused, used, total = 0, 0, 0, 0.0
    each_node = np.zeros(idle.shape[0])
    for n in range(idle.shape[0]):
        each_node[n] = fragmented(idle[n], free[n, 0], free[n, 2], typical, share, may)
        total += each_node[n]
    for e in range(events.shape[0]):
        request = events[e] if events[e] >= 0 else -events[e] - 1
        k, n, sign = kind[request], node[request], 1 if events[e] >= 0 else -1
        amount = needs[k, 2] * needs[k, 3]
        if sign > 0:
            arrived += amount
            if n < 0:
                refused += amount
        if n >= 0:
            if not allowed[k, free[n, 2]]:
                return e
            free[n, 0] -= sign * needs[k, 0]
            free[n, 1] -= sign * needs[k, 1]
            taken = 0
            for g in range(idle.shape[1]):
                if gpus[request] >> g & 1:
                    if idle[n, g] < 0:
                        return e
                    idle[n, g] -= sign * needs[k, 3]
                    taken += 1
                    if idle[n, g] < 0 or idle[n, g] > 1000:
                        return e
            if taken != needs[k, 2] or free[n, 0] < 0 or free[n, 1] < 0:
                return e
            used += sign * amount
            total -= each_node[n]
            each_node[n] = fragmented(idle[n], free[n, 0], free[n, 2], typical, share, may)
            total += each_node[n]
        course[0][e], course[1][e], course[2][e], course[3][e] = arrived, refused, used, total
    return -1
