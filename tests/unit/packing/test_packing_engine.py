"""The engine's answers on worlds small enough to check by eye."""

import numpy as np

from scheduler.core.packing.engine import PackingEngine
from scheduler.core.packing.kinds import NodeRoom, RequestKind, StateFacts, Transition
from scheduler.core.packing.tables import ClusterExtent, hole_values_of_mix
from scheduler.core.packing.thousandths import ThousandthsGeometry

HALF = RequestKind(1_000, 1_024, 1, 0.5, 500)
WHOLE = RequestKind(1_000, 1_024, 1, 1.0, 1_000)
PAIR = RequestKind(1_000, 1_024, 2, 2.0, 1_000)
CPU_ONLY = RequestKind(4_000, 1_024, 0, 0.0)
MIX = {HALF: 4.0, WHOLE: 2.0, PAIR: 1.0}
EXTENT = ClusterExtent(
    cpu_milli=32_000, memory_mib=262_144, max_gpus_per_node=4, gpus_by_model=(8, 8)
)


def a_node(*states, cpu=16_000, memory=65_536, model=0):
    return NodeRoom(model, cpu, memory, states)


def an_engine(*nodes, mix=MIX, geometry=None, **options):
    geometry = geometry or ThousandthsGeometry(tuple(hole_values_of_mix(mix)))
    return PackingEngine(nodes, EXTENT, geometry, mix, **options)


def test_a_share_completes_a_gpu_before_it_opens_another():
    engine = an_engine(a_node(1_000, 1_000), a_node(1_000, 500))

    choice = engine.best_choice(engine.kind_number(HALF))

    assert (choice.node, choice.gpus) == (1, (1,))


def test_equal_nodes_are_taken_in_their_order():
    engine = an_engine(*[a_node(1_000, 1_000)] * 4)

    assert engine.best_choice(engine.kind_number(WHOLE)).node == 0
    assert engine.ranked_nodes(engine.kind_number(WHOLE)) == [0, 1, 2, 3]


def test_a_kind_of_two_gpus_takes_two_that_are_free_together():
    engine = an_engine(a_node(1_000, 500), a_node(500, 1_000, 300, 1_000))

    choice = engine.best_choice(engine.kind_number(PAIR))

    assert (choice.node, choice.gpus) == (1, (1, 3))
    engine.place(engine.kind_number(PAIR), choice)
    assert engine.best_choice(engine.kind_number(PAIR)) is None
    assert engine.node_room(1) == a_node(500, 0, 300, 0, cpu=15_000, memory=64_512)


def test_cpu_memory_and_model_are_hard_limits():
    here = RequestKind(1_000, 1_024, 1, 1.0, 1_000, frozenset({1}))
    engine = an_engine(
        a_node(1_000, model=0), a_node(1_000, model=1, cpu=999), a_node(1_000, model=1, memory=9)
    )
    assert engine.best_choice(engine.kind_number(here)) is None

    engine.update(1, 1_000, 1_024, {})
    assert engine.best_choice(engine.kind_number(here)).node == 1


def test_work_without_gpus_goes_where_the_gpus_are_spent():
    engine = an_engine(a_node(1_000, 1_000, cpu=4_000), a_node(0, 0, cpu=4_000))

    choice = engine.best_choice(engine.kind_number(CPU_ONLY))

    assert (choice.node, choice.gpus) == (1, ())


def test_work_with_little_cpu_goes_where_cpu_is_short():
    """Two idle GPUs with CPU for one big request each, or for small ones only."""
    small, big = RequestKind(1_000, 0, 1, 1.0, 1_000), RequestKind(8_000, 0, 1, 1.0, 1_000)
    mix = {small: 1.0, big: 1.0}
    engine = an_engine(a_node(1_000, 1_000, cpu=32_000), a_node(1_000, 1_000, cpu=3_000), mix=mix)

    assert engine.best_choice(engine.kind_number(small)).node == 1
    assert engine.best_choice(engine.kind_number(big)).node == 0


def test_who_needs_no_model_leaves_the_scarce_one():
    """The unbound request finds both nodes equal but for the model."""
    bound = RequestKind(1_000, 1_024, 1, 1.0, 1_000, frozenset({0}))
    engine = an_engine(a_node(1_000), a_node(1_000, model=1), mix={bound: 1.0, WHOLE: 1.0})

    assert engine.best_choice(engine.kind_number(WHOLE)).node == 1
    assert engine.best_choice(engine.kind_number(bound)).node == 0


def test_an_unusable_node_is_never_chosen():
    engine = an_engine(a_node(1_000), a_node(1_000))
    engine.set_usable(0, False)
    assert engine.best_choice(engine.kind_number(WHOLE)).node == 1
    assert engine.ranked_nodes(engine.kind_number(WHOLE)) == [1]

    engine.set_usable(0, True)
    assert engine.best_choice(engine.kind_number(WHOLE)).node == 0
    assert engine.best_choice(engine.kind_number(WHOLE), among=np.array([False, True])).node == 1
    assert engine.best_choice(engine.kind_number(WHOLE), among=np.array([False, False])) is None


class Slices:
    """Boards cut in layouts: a state is how many of its four quarters are used, in order."""

    def facts(self, state):
        used = state.count("x")
        return StateFacts(value=(4 - used) / 4, idle=(4 - used) / 4, started=0 < used < 4)

    def transition(self, state, shape):
        at = state.find("." * shape)
        if at < 0:
            return None
        return Transition(state[:at] + "x" * shape + state[at + shape :], preference=0.01 * at)


def test_any_geometry_of_slices_is_packed_alike():
    halves = RequestKind(1_000, 0, 1, 0.5, 2)
    engine = an_engine(a_node(".x.x", "xx.."), a_node(".x.x"), mix={halves: 1.0}, geometry=Slices())

    choice = engine.best_choice(engine.kind_number(halves))
    engine.place(engine.kind_number(halves), choice)

    assert (choice.node, choice.gpus) == (0, (1,))
    assert engine.node_room(0).states == (".x.x", "xxxx")
    assert engine.best_choice(engine.kind_number(halves)) is None


def test_hundreds_of_kinds_and_states_may_appear_while_it_runs():
    """The arrays grow past their first 64 rows and columns."""
    engine = an_engine(*[a_node(1_000, 1_000, cpu=32_000)] * 3)
    late = [RequestKind(10 * i, 0, 1, (i + 1) / 1_000, i + 1) for i in range(90)]
    for kind in late:
        number = engine.kind_number(kind)
        engine.place(number, engine.best_choice(number))
    before = [engine.ranked_nodes(engine.kind_number(kind)) for kind in late]
    engine.rescore_all()

    assert [engine.ranked_nodes(engine.kind_number(kind)) for kind in late] == before
    used = sum(3 * 2 * [1_000]) - sum(sum(engine.node_room(n).states) for n in range(3))
    assert used == sum(range(1, 91))
