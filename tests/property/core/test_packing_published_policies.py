"""The compiled tables of published policies decide as their definition, written out slowly here."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.packing.fragmentation import fragmentation, typical_kinds
from scheduler.core.packing.kinds import NodeRoom, RequestKind
from scheduler.core.packing.thousandths import ThousandthsGeometry
from scheduler.replay.openb_data import TracePods
from scheduler.replay.placement_baselines import decide
from scheduler.replay.placement_events import only_arrivals
from scheduler.replay.placement_record import replay_decisions
from tests.support.examples import examples

NODES = st.lists(
    st.builds(
        lambda model, cpu, gpus: NodeRoom(model, cpu * 4_000, 65_536, (1_000,) * gpus),
        st.integers(0, 1), st.integers(1, 8), st.integers(1, 4),
    ),
    min_size=1, max_size=6,
)  # fmt: skip
KINDS = st.builds(
    lambda cpu, size, models: RequestKind(cpu, 1_024, min(size[0], 2), size[0] * size[1] / 1_000,
                                   size[1], models),
    st.sampled_from([0, 1_000, 3_000, 7_000]),
    st.sampled_from([(1, 200), (1, 330), (1, 500), (1, 810), (1, 1_000), (2, 1_000), (0, 0)]),
    st.sampled_from([None, None, frozenset({0})]),
)  # fmt: skip
WORLDS = st.tuples(
    NODES,
    st.lists(KINDS, min_size=1, max_size=6, unique=True),
    st.lists(st.integers(0, 5), max_size=40),
)


def slowly(score, nodes, pods, mix):
    """Tries every GPU of every node for every request; the first of the best takes it."""
    free = [[node.cpu_milli, node.memory_mib, list(node.states)] for node in nodes]
    chosen = []
    for number in pods.kind:
        kind, best, at, left = pods.kinds[number], None, None, None
        for n, (cpu, memory, idle) in enumerate(free):
            room = kind.cpu_milli <= cpu and kind.memory_mib <= memory
            if not room or not kind.allows(nodes[n].model):
                continue
            fitting = [g for g, milli in enumerate(idle) if kind.gpus and milli >= kind.shape]
            if len(fitting) < kind.gpus:
                continue
            options = [(g,) for g in fitting] if kind.is_share else [tuple(fitting[: kind.gpus])]
            for gpus in options:
                after = [milli - kind.shape * (g in gpus) for g, milli in enumerate(idle)]
                here = score(kind, nodes[n].model, cpu, idle, after, gpus, mix)
                if best is None or here > best:
                    best, at, left = here, (n, gpus), after
        chosen.append(at)
        if at:
            free[at[0]] = [free[at[0]][0] - kind.cpu_milli, free[at[0]][1] - kind.memory_mib, left]
    return chosen


def best_fit(kind, model, cpu, idle, after, gpus, mix):
    """Least left on the node; inside it the GPU with least idle, which the second part decides."""
    node = -(0.5 * (cpu - kind.cpu_milli) / 128_000 + 0.5 * sum(after) / 8_000)
    return (node, -idle[gpus[0]] if kind.is_share else 0)


def gradient(kind, model, cpu, idle, after, gpus, mix):
    before = 1_000 * fragmentation(idle, cpu, model, mix, ThousandthsGeometry())
    then = 1_000 * fragmentation(after, cpu - kind.cpu_milli, model, mix, ThousandthsGeometry())
    return int(100 / (1 + math.exp(-(before - then) / 1_000)))


def both(policy, score, world):
    nodes, kinds, numbers = world
    pods = TracePods(tuple(kinds), np.array([n % len(kinds) for n in numbers], np.int64))
    mix = typical_kinds({kind: float(i + 1) for i, kind in enumerate(kinds)})
    requests = only_arrivals(len(numbers))
    decisions = decide(policy, requests, requests, pods, tuple(nodes), mix, seed=1)
    replay_decisions(requests, requests, pods, tuple(nodes), decisions, mix)
    fast = [
        (int(n), tuple(g for g in range(8) if int(bits) >> g & 1)) if n >= 0 else None
        for n, bits in zip(decisions.node, decisions.gpus, strict=True)
    ]
    return fast, slowly(score, nodes, pods, mix)


@pytest.mark.slow
@given(WORLDS)
@examples(80)
def test_best_fit_decides_as_its_definition(world):
    fast, slow = both("bestfit", best_fit, world)
    assert fast == slow


@pytest.mark.slow
@given(WORLDS)
@examples(80)
def test_fragmentation_gradient_descent_decides_as_its_definition(world):
    fast, slow = both("fgd", gradient, world)
    assert fast == slow


@pytest.mark.slow
@given(WORLDS)
@examples(30)
def test_random_and_packing_take_only_what_is_free_and_whatever_fits(world):
    nodes, kinds, numbers = world
    pods = TracePods(tuple(kinds), np.array([n % len(kinds) for n in numbers], np.int64))
    mix = typical_kinds(dict.fromkeys(kinds, 1.0))
    requests = only_arrivals(len(numbers))
    for policy in ("random", "packing"):
        decisions = decide(policy, requests, requests, pods, tuple(nodes), mix, seed=1)
        replay_decisions(requests, requests, pods, tuple(nodes), decisions, mix)
        if len(requests):
            first = pods.kinds[pods.kind[0]]
            fits = [
                n for n, node in enumerate(nodes)
                if first.allows(node.model) and first.cpu_milli <= node.cpu_milli
                and first.gpus <= len(node.states)
            ]  # fmt: skip
            assert (decisions.node[0] in fits) if fits else decisions.node[0] == -1
