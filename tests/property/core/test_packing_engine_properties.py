"""Laws of the packing engine over random worlds of shares, departures and changing demand."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.packing.engine import PackingEngine
from scheduler.core.packing.fragmentation import fragmentation, typical_kinds
from scheduler.core.packing.kinds import NodeRoom, RequestKind
from scheduler.core.packing.tables import ClusterExtent, hole_values_of_mix
from scheduler.core.packing.thousandths import ThousandthsGeometry
from scheduler.core.packing.weights import FILLING, STEADY
from tests.support.examples import examples

SIZES = (200, 330, 500, 810, 1_000)
EXTENT = ClusterExtent(
    cpu_milli=32_000, memory_mib=131_072, max_gpus_per_node=4, gpus_by_model=(6, 6)
)
NODES = st.builds(
    lambda model, cpu, memory, gpus: NodeRoom(model, cpu, memory, (1_000,) * gpus),
    st.integers(0, 1),
    st.integers(0, 64).map(lambda n: n * 500),
    st.integers(1, 128).map(lambda n: n * 1_024),
    st.integers(1, 4),
)
MODELS = st.sampled_from([None, None, frozenset({0}), frozenset({1})])
CPU = st.sampled_from([0, 500, 1_500, 4_000, 11_000])
MEMORY = st.sampled_from([0, 4_096, 30_000])
KINDS = st.one_of(
    st.builds(
        lambda cpu, memory, size, models: RequestKind(cpu, memory, 1, size / 1_000, size, models),
        CPU, MEMORY, st.sampled_from(SIZES), MODELS,
    ),
    st.builds(lambda cpu, memory: RequestKind(cpu, memory, 2, 2.0, 1_000), CPU, MEMORY),
    st.builds(lambda cpu, memory: RequestKind(cpu, memory, 0, 0.0), CPU, MEMORY),
)  # fmt: skip
WORLDS = st.tuples(
    st.lists(NODES, min_size=1, max_size=9),
    st.lists(KINDS, min_size=1, max_size=8, unique=True),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 5)), max_size=60),
    st.sampled_from([FILLING, STEADY]),
)


class Books:
    """Plays one sequence: every third step ends the oldest running work, others start some."""

    def __init__(self, world, tournament=False):
        self.nodes, self.kinds, steps, weights = world
        self.mix = {kind: float(i + 1) for i, kind in enumerate(self.kinds)}
        geometry = ThousandthsGeometry(tuple(hole_values_of_mix(self.mix)))
        self.engine = PackingEngine(self.nodes, EXTENT, geometry, self.mix, weights, tournament)
        self.geometry, self.running, self.chosen = geometry, [], []
        self.free = [[node.cpu_milli, node.memory_mib, list(node.states)] for node in self.nodes]
        for which, what in steps:
            if what == 0 and self.running:
                self.end(*self.running.pop(0))
            else:
                self.start(self.kinds[which % len(self.kinds)])

    def start(self, kind):
        number = self.engine.kind_number(kind)
        choice = self.engine.best_choice(number)
        self.chosen.append(choice)
        if choice is None:
            assert not any(self.fits(kind, n) for n in range(len(self.nodes)))
            return
        assert self.fits(kind, choice.node)
        assert len(set(choice.gpus)) == kind.gpus
        self.engine.place(number, choice)
        self.running.append((kind, choice))
        self.book(kind, choice, 1)

    def end(self, kind, choice):
        self.book(kind, choice, -1)
        cpu, memory, states = self.free[choice.node]
        self.engine.update(choice.node, cpu, memory, {g: states[g] for g in choice.gpus})

    def book(self, kind, choice, sign):
        free = self.free[choice.node]
        free[0] -= sign * kind.cpu_milli
        free[1] -= sign * kind.memory_mib
        for gpu in choice.gpus:
            free[2][gpu] -= sign * kind.shape
            assert 0 <= free[2][gpu] <= 1_000
        assert free[0] >= 0 and free[1] >= 0

    def fits(self, kind, node):
        cpu, memory, states = self.free[node]
        gpus = sum(kind.gpus > 0 and idle >= kind.shape for idle in states)
        room = kind.cpu_milli <= cpu and kind.memory_mib <= memory and kind.gpus <= gpus
        return room and kind.allows(self.nodes[node].model)

    def rows(self):
        """(nodes by rank, their choices) of each kind."""
        numbers = [self.engine.kind_number(kind) for kind in self.kinds]
        ranked = [self.engine.ranked_nodes(number) for number in numbers]
        return [
            [self.engine.choice_on(number, node) for node in row]
            for number, row in zip(numbers, ranked, strict=True)
        ]


@given(WORLDS)
@examples(60)
def test_nothing_is_booked_twice_and_what_fits_somewhere_is_placed(world):
    books = Books(world)

    for n, (cpu, memory, states) in enumerate(books.free):
        room = books.engine.node_room(n)
        assert (room.cpu_milli, room.memory_mib, list(room.states)) == (cpu, memory, states)


@given(WORLDS)
@examples(60)
def test_scores_kept_up_change_by_change_equal_those_of_a_fresh_engine(world):
    books = Books(world)
    books.engine.update_scarcity()
    kept = books.rows()

    books.engine.rescore_all()
    assert books.rows() == kept

    books.nodes = [books.engine.node_room(n) for n in range(len(books.nodes))]
    fresh = Books((books.nodes, books.kinds, (), world[3]))
    assert fresh.rows() == books.rows()


@given(WORLDS)
@examples(60)
def test_a_tournament_decides_exactly_as_a_scan(world):
    assert Books(world, tournament=True).chosen == Books(world, tournament=False).chosen


@given(WORLDS)
@examples(25)
def test_the_same_world_is_decided_the_same_way_twice(world):
    assert Books(world).chosen == Books(world).chosen


@given(WORLDS)
@examples(60)
def test_the_best_node_is_the_first_of_those_ranked(world):
    books = Books(world)

    for kind in books.kinds:
        number = books.engine.kind_number(kind)
        best, ranked = books.engine.best_choice(number), books.engine.ranked_nodes(number)
        assert (best.node if best else None) == (ranked[0] if ranked else None)


@given(WORLDS)
@examples(60)
def test_the_compiled_fragmentation_is_that_of_the_definition(world):
    books = Books(world)

    for n, (cpu, _, states) in enumerate(books.free):
        expected = fragmentation(
            states, cpu, books.nodes[n].model, typical_kinds(books.mix), books.geometry
        )
        assert abs(books.engine.fragmentation(n) - expected) < 1e-9
