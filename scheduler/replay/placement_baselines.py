"""Published placement policies, as their authors implemented them, on tables of their own.

`random`: any node and GPU that fits. `packing`: GPUs in use first, then nodes in use. `bestfit`:
least CPU and GPU left on the node. `fgd`: fragmentation gradient descent, its whole-number score.
Source: kubernetes-scheduler-simulator of "Beware of Fragmentation" (ATC 2023). They share nothing
with Tessera's engine, so that the two can be compared.
"""

import time

import numpy as np
import numpy.typing as npt
from numba import njit

from scheduler.core.packing.fragmentation import TypicalKinds
from scheduler.core.packing.kinds import NodeRoom
from scheduler.replay.openb_data import GPU_MILLI, Ints, TracePods
from scheduler.replay.placement_record import NOWHERE, PlacementDecisions, fragmented, idle_table

RULES = {"random": 0, "packing": 1, "bestfit": 2, "fgd": 3}
RANDOM, PACKING, BESTFIT, FGD = 0, 1, 2, 3
CPU_SCALE, GPU_SCALE = 128_000.0, 8_000.0  # openb's largest node
Floats = npt.NDArray[np.float64]


def decide(
    policy: str, events: Ints, requests: Ints, pods: TracePods, nodes: tuple[NodeRoom, ...],
    typical: TypicalKinds, seed: int,
) -> PlacementDecisions:  # fmt: skip
    """`requests`: the pod of each request. Equal scores go to the first node."""
    models = 1 + max(node.model for node in nodes)
    kinds = pods.kinds
    node, gpus = np.full(len(requests), NOWHERE, np.int64), np.zeros(len(requests), np.int64)
    draws = np.random.default_rng([seed, 1]).random((len(requests), 2))
    idle, free = idle_table(nodes), _free(nodes)
    arguments = (
        pods.kind[requests],
        np.array(
            [(k.cpu_milli, k.memory_mib, k.gpus, round(k.gpus_each * GPU_MILLI)) for k in kinds]
        ),
        np.array([[k.allows(m) for m in range(models)] for k in kinds]),
        idle,
        free,
        np.array(
            [(k.cpu_milli, k.gpus, round(k.gpus_each * GPU_MILLI)) for k, _ in typical], np.int64
        ),
        np.array([share for _, share in typical]),
        np.array([[k.allows(m) for m in range(models)] for k, _ in typical]),
        draws,
        np.empty((len(kinds), len(nodes))),
        np.empty((len(kinds), len(nodes)), np.int64),
        node,
        gpus,
    )
    _run(RULES[policy], events[:0], *arguments)  # compiles and fills the table of scores
    started = time.perf_counter()
    _run(RULES[policy], events, *arguments)
    return PlacementDecisions(node, gpus, time.perf_counter() - started)


def _free(nodes: tuple[NodeRoom, ...]) -> Ints:
    return np.array([(node.cpu_milli, node.memory_mib, node.model) for node in nodes], np.int64)


@njit(cache=True)
def _score(
    rule: int, n: int, g: int, need: Ints, idle: Ints, free: Ints,
    typical: Ints, share: Floats, may: Ints, before: float,
) -> float:  # fmt: skip
    """The score of node `n`, higher is better; `g` is the GPU that a share would take, else -1."""
    cpu, left, busy, partly = free[n, 0] - need[0], -need[2] * need[3], False, False
    for milli in idle[n]:
        left += max(milli, 0)
        busy |= 0 <= milli < 1000
    if rule == BESTFIT:
        return float(-(0.5 * cpu / CPU_SCALE + 0.5 * left / GPU_SCALE))
    if rule == PACKING:
        partly = g >= 0 and idle[n, g] < 1000
        tier = 2.0 if partly else 1.0 if busy else 0.0
        tight = idle[n, g] / 1000.0 if g >= 0 else left / GPU_SCALE
        return float(tier - 0.9 * min(tight, 1.0))
    after = idle[n].copy()
    taken = 0
    for i in range(after.shape[0]):
        mine = i == g if g >= 0 else after[i] >= need[3]
        if mine and taken < need[2]:
            after[i] -= need[3]
            taken += 1
    change = (before - fragmented(after, cpu, free[n, 2], typical, share, may)) / 1000.0
    return float(int(100.0 / (1.0 + np.exp(-change))))


@njit(cache=True)
def _column(
    rule: int, n: int, needs: Ints, allowed: Ints, idle: Ints, free: Ints,
    typical: Ints, share: Floats, may: Ints, scores: Floats, gpu: Ints,
) -> None:  # fmt: skip
    """The scores of every kind on one node, and the GPU that a share takes there."""
    before = 0.0
    if rule == FGD:
        before = fragmented(idle[n], free[n, 0], free[n, 2], typical, share, may)
    for k in range(needs.shape[0]):
        need = needs[k]
        scores[k, n], gpu[k, n] = -np.inf, -1
        if need[0] > free[n, 0] or need[1] > free[n, 1] or not allowed[k, free[n, 2]]:
            continue
        fits = 0
        for milli in idle[n]:
            fits += milli >= need[3] and milli >= 0
        if fits < need[2]:
            continue
        if rule == RANDOM:
            scores[k, n] = 0.0
        elif need[2] != 1 or need[3] == 1000:
            scores[k, n] = _score(rule, n, -1, need, idle, free, typical, share, may, before)
        else:
            for g in range(idle.shape[1]):
                if idle[n, g] < need[3]:
                    continue
                same = False  # as a GPU that was scored already
                for other in range(g):
                    same |= idle[n, other] == idle[n, g]
                if same:
                    continue
                here = -1.0 * idle[n, g]
                if rule == FGD:
                    here = _score(rule, n, g, need, idle, free, typical, share, may, before)
                if gpu[k, n] < 0 or here > scores[k, n]:
                    scores[k, n], gpu[k, n] = here, g
            if rule != FGD:
                scores[k, n] = _score(
                    rule, n, gpu[k, n], need, idle, free, typical, share, may, before
                )


@njit(cache=True)
def _chosen(rule: int, k: int, draw: float, scores: Floats) -> int:
    row = scores[k]
    if rule != RANDOM:
        best = int(np.argmax(row))
        return best if row[best] > -np.inf else -1
    fitting = np.flatnonzero(row > -np.inf)
    return int(fitting[int(draw * len(fitting))]) if len(fitting) else -1


@njit(cache=True)
def _bits(rule: int, n: int, one: int, draw: float, need: Ints, idle: Ints) -> int:
    """The GPUs that are taken, as bits: the chosen one, or the first that fit."""
    if one >= 0:
        return 1 << one
    fitting = np.flatnonzero((idle[n] >= need[3]) & (idle[n] >= 0))
    if rule == RANDOM and need[2] == 1:
        return 1 << int(fitting[int(draw * len(fitting))])
    bits = 0
    for g in fitting[: need[2]]:
        bits |= 1 << int(g)
    return bits


@njit(cache=True)
def _run(
    rule: int, events: Ints, kind: Ints, needs: Ints, allowed: Ints, idle: Ints, free: Ints,
    typical: Ints, share: Floats, may: Ints, draws: Floats, scores: Floats, gpu: Ints,
    node: Ints, gpus: Ints,
) -> None:  # fmt: skip
    """Without events: fills `scores` and `gpu` [kinds, nodes]. With them: goes through them."""
    if events.shape[0] == 0:
        for n in range(idle.shape[0]):
            _column(rule, n, needs, allowed, idle, free, typical, share, may, scores, gpu)
    for e in events:
        request = e if e >= 0 else -e - 1
        k, sign = kind[request], 1 if e >= 0 else -1
        if sign > 0:
            n = _chosen(rule, k, draws[request, 0], scores)
            if n < 0:
                continue
            node[request] = n
            gpus[request] = _bits(rule, n, gpu[k, n], draws[request, 1], needs[k], idle)
        n = node[request]
        if n < 0:
            continue
        free[n, 0] -= sign * needs[k, 0]
        free[n, 1] -= sign * needs[k, 1]
        for g in range(idle.shape[1]):
            if gpus[request] >> g & 1:
                idle[n, g] -= sign * needs[k, 3]
        _column(rule, n, needs, allowed, idle, free, typical, share, may, scores, gpu)
