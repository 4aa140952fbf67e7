"""Compiled kernels: a column holds the scores of all kinds on one node.

A placement or a departure changes one node, so only its column is computed anew, from that node
alone: a column never depends on what came before. Array dimensions: K kinds, N nodes, M models,
S states, T typical kinds, G GPUs of a node.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.core.compiled import compiled

Ints = npt.NDArray[np.int64]
Shorts = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

GRAIN = 1e-9  # scores that differ by less are equal: every score is a multiple of this


class Nodes(NamedTuple):
    """[N] each; `states` [N, G] has state numbers, of which the first `gpus` in a row count."""

    cpu: Ints
    memory: Ints
    model: Ints
    gpus: Ints
    states: Shorts
    usable: Bools


class States(NamedTuple):
    """[S] each; `value` and `idle` in GPUs."""

    value: Floats
    idle: Floats
    started: Bools


class Kinds(NamedTuple):
    """[K] each; `allowed` [K, M]; `next_states` [K, S] is -1 where the kind does not fit."""

    cpu: Ints
    memory: Ints
    gpus: Ints
    share: Bools
    amount: Floats
    allowed: Bools
    next_states: Shorts
    preference: Floats


class Typicals(NamedTuple):
    """[T] each; `allowed` [T, M]; `fits` [T, S]."""

    cpu: Ints
    gpus: Ints
    share: Floats
    allowed: Bools
    fits: Bools


class Scores(NamedTuple):
    """Scores of kinds on nodes."""

    score: Floats
    """[K, N] Without scarcity; -inf where the kind does not fit."""
    gpu: Shorts
    """[K, N] The chosen GPU for a kind with one GPU; -1 for other kinds."""
    fragmentation: Floats
    """[N] F of the node, in GPUs."""


class Fills(NamedTuple):
    """[M, idle GPUs, steps] GPUs that can be filled, and the size of a step."""

    cpu: Floats
    memory: Floats
    cpu_step: int
    memory_step: int


@compiled
def _filled(table: Floats, room: float, step: int) -> float:
    """How many of `room` idle GPUs can be filled, interpolated between whole numbers."""
    whole = min(int(room + 1e-9), table.shape[0] - 2)
    part = min(max(room - whole, 0.0), 1.0)
    at = min(max(step, 0), table.shape[1] - 1)
    low = table[whole, at]
    return float(low + part * (table[whole + 1, at] - low))


@compiled
def _worth(fills: Fills, model: int, room: float, cpu: int, memory: int) -> float:
    """V of a node: how many GPUs its holes, CPU and memory still allow to fill."""
    by_cpu = _filled(fills.cpu[model], room, cpu // fills.cpu_step)
    by_memory = _filled(fills.memory[model], room, memory // fills.memory_step)
    return float(min(by_cpu, by_memory))


@compiled
def _unusable(
    typicals: Typicals, states: States, distinct: Shorts, many: Ints, fits: Ints, unfit: Floats
) -> None:
    """Write, per typical kind, how many GPUs of a node it fits and what is idle on the others."""
    for t in range(typicals.cpu.shape[0]):
        fits[t], unfit[t] = 0, 0.0
        for d in range(distinct.shape[0]):
            if typicals.fits[t, distinct[d]]:
                fits[t] += many[d]
            else:
                unfit[t] += many[d] * states.idle[distinct[d]]


@compiled
def _fragmentation_of(
    typicals: Typicals, states: States, model: int, cpu: int, idle: float,
    fits: Ints, unfit: Floats, distinct: Shorts, taken: Ints, nexts: Shorts,
) -> float:  # fmt: skip
    """F of a node with this CPU and idle GPU, after `taken[d]` of its GPUs change to `nexts`."""
    amount = 0.0
    for t in range(typicals.cpu.shape[0]):
        unused = idle
        if typicals.gpus[t] and typicals.cpu[t] <= cpu and typicals.allowed[t, model]:
            left, wasted = fits[t], unfit[t]
            for d in range(distinct.shape[0]):
                if taken[d]:
                    state, after = distinct[d], nexts[distinct[d]]
                    if typicals.fits[t, state]:
                        left -= taken[d]
                    else:
                        wasted -= taken[d] * states.idle[state]
                    if typicals.fits[t, after]:
                        left += taken[d]
                    else:
                        wasted += taken[d] * states.idle[after]
            if left >= typicals.gpus[t]:
                unused = wasted
        amount += typicals.share[t] * unused
    return amount


@compiled
def choose_gpus(
    kinds: Kinds, states: States, k: int, distinct: Shorts, counts: Ints, taken: Ints
) -> bool:
    """Fill `taken` with the GPUs that lose least; False if there are too few."""
    taken[:] = 0
    for _ in range(kinds.gpus[k]):
        best, gain = -1, -np.inf
        for d in range(distinct.shape[0]):
            after = kinds.next_states[k, distinct[d]]
            if after >= 0 and taken[d] < counts[d]:
                change = states.value[after] - states.value[distinct[d]]
                change += kinds.preference[k, distinct[d]]
                if change > gain + GRAIN:
                    best, gain = d, change
        if best < 0:
            return False
        taken[best] += 1
    return True


@compiled
def distinct_states(row: Shorts, gpus: int) -> tuple[Shorts, Ints, Ints]:
    """The distinct states of a node's GPUs, how many GPUs are in each, and the first of them."""
    distinct = np.empty(gpus, np.int32)
    many = np.zeros(gpus, np.int64)
    first = np.zeros(gpus, np.int64)
    found = 0
    for g in range(gpus):
        d = 0
        while d < found and distinct[d] != row[g]:
            d += 1
        if d == found:
            distinct[d], first[d] = row[g], g
            found += 1
        many[d] += 1
    return distinct[:found], many[:found], first[:found]


@compiled
def _may_run(nodes: Nodes, kinds: Kinds, k: int, n: int) -> bool:
    """Whether the node is usable and has the CPU, the memory and an allowed model."""
    if kinds.cpu[k] > nodes.cpu[n] or kinds.memory[k] > nodes.memory[n]:
        return False
    return bool(nodes.usable[n] and kinds.allowed[k, nodes.model[n]])


@compiled
def _gain(
    k: int, n: int, nodes: Nodes, kinds: Kinds, states: States, typicals: Typicals, fills: Fills,
    weights: Floats, scores: Scores, room: float, idle: float, worth: float,
    fits: Ints, unfit: Floats, distinct: Shorts, taken: Ints,
) -> float:  # fmt: skip
    """The score of kind `k` on node `n`, with `room` and `worth`, if it takes the GPUs `taken`."""
    cpu, memory = nodes.cpu[n] - kinds.cpu[k], nodes.memory[n] - kinds.memory[k]
    model, nexts, score = nodes.model[n], kinds.next_states[k], 0.0
    idle_after = idle
    for d in range(distinct.shape[0]):
        if taken[d]:
            state, after = distinct[d], nexts[distinct[d]]
            room += taken[d] * (states.value[after] - states.value[state])
            idle_after += taken[d] * (states.idle[after] - states.idle[state])
            score += taken[d] * kinds.preference[k, state]
            if kinds.share[k] and states.started[state]:
                score += weights[1]
    score += _worth(fills, model, room, cpu, memory) - worth
    score -= weights[0] * (cpu * weights[3] + idle_after * weights[4])
    if weights[2] > 0.0:
        after_f = _fragmentation_of(
            typicals, states, model, cpu, idle_after, fits, unfit, distinct, taken, nexts
        )
        score += weights[2] * (scores.fragmentation[n] - after_f)
    return float(np.rint(score / GRAIN) * GRAIN)


@compiled
def score_columns(
    which: Ints, first_kind: int, last_kind: int, nodes: Nodes, kinds: Kinds, states: States,
    typicals: Typicals, fills: Fills, weights: Floats, scores: Scores,
) -> None:  # fmt: skip
    """Write the scores of kinds first_kind..last_kind - 1 on the nodes `which`.

    `weights`: fit, started, fragmentation, 0.5 / CPU scale, 0.5 / GPU scale.
    """
    fits = np.zeros(typicals.cpu.shape[0], np.int64)
    unfit = np.zeros(typicals.cpu.shape[0])
    for n in which:
        distinct, many, first = distinct_states(nodes.states[n], nodes.gpus[n])
        taken = np.zeros(distinct.shape[0], np.int64)
        model, cpu = nodes.model[n], nodes.cpu[n]
        _unusable(typicals, states, distinct, many, fits, unfit)
        room, idle = 0.0, 0.0
        for d in range(distinct.shape[0]):
            room += many[d] * states.value[distinct[d]]
            idle += many[d] * states.idle[distinct[d]]
        worth = _worth(fills, model, room, cpu, nodes.memory[n])
        scores.fragmentation[n] = _fragmentation_of(
            typicals, states, model, cpu, idle, fits, unfit, distinct, taken, kinds.next_states[0]
        )
        for k in range(first_kind, last_kind):
            scores.score[k, n], scores.gpu[k, n] = -np.inf, -1
            if not _may_run(nodes, kinds, k, n):
                continue
            alone = kinds.gpus[k] == 1
            for choice in range(distinct.shape[0] if alone else 1):
                taken[:] = 0
                if alone:
                    if kinds.next_states[k, distinct[choice]] < 0:
                        continue
                    taken[choice] = 1
                elif not choose_gpus(kinds, states, k, distinct, many, taken):
                    continue
                score = _gain(
                    k, n, nodes, kinds, states, typicals, fills, weights, scores, room, idle, worth,
                    fits, unfit, distinct, taken,
                )  # fmt: skip
                if score > scores.score[k, n]:
                    scores.score[k, n] = score
                    scores.gpu[k, n] = first[choice] if alone else -1


@compiled
def chosen_gpus(kinds: Kinds, states: States, nodes: Nodes, k: int, n: int) -> Ints:
    """The GPUs of node `n` that a kind with several GPUs takes; empty if there are too few."""
    distinct, many, _ = distinct_states(nodes.states[n], nodes.gpus[n])
    taken = np.zeros(distinct.shape[0], np.int64)
    chosen = np.empty(kinds.gpus[k], np.int64)
    if not choose_gpus(kinds, states, k, distinct, many, taken):
        return chosen[:0]
    filled = 0
    for g in range(nodes.gpus[n]):
        for d in range(distinct.shape[0]):
            if distinct[d] == nodes.states[n, g] and taken[d]:
                taken[d] -= 1
                chosen[filled] = g
                filled += 1
    return chosen
