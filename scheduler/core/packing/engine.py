"""The packing engine: nodes with GPUs in states, request kinds, and the best node for each kind."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.core.packing import winners
from scheduler.core.packing.kernels import Bools, Fills, Ints, Scores, chosen_gpus, score_columns
from scheduler.core.packing.kinds import Geometry, KindMix, NodeChoice, NodeRoom, RequestKind
from scheduler.core.packing.registry import KindRegistry, node_arrays
from scheduler.core.packing.scarcity import MIN_USABLE_IDLE, scarcity
from scheduler.core.packing.tables import CPU_STEP, MEMORY_STEP, ClusterExtent, score_tables
from scheduler.core.packing.weights import FILLING, ScoreWeights

SCARCITY_EVERY = 250  # changes of nodes


class PackingEngine:
    """Scores every request kind on every node.

    Nodes are numbered as in `nodes`. Among equal scores the first node wins. Not thread-safe.
    """

    def __init__(
        self,
        nodes: Sequence[NodeRoom],
        extent: ClusterExtent,
        geometry: Geometry,
        mix: KindMix,
        weights: ScoreWeights = FILLING,
        use_tournament: bool | None = None,
    ) -> None:
        """`use_tournament`: how the best node is found; None decides by the number of nodes."""
        self._extent = extent
        self._weights = weights
        self._tables = score_tables(mix, extent)
        self._registry = KindRegistry(geometry, self._tables.typical, len(extent.gpus_by_model))
        self._nodes = node_arrays(nodes, extent.max_gpus_per_node, self._registry)
        count = len(nodes)
        large = count > winners.SCAN_UP_TO
        self._tournament = large if use_tournament is None else use_tournament
        self._leaves = 1 << max(1, (count - 1).bit_length())
        self._scores = Scores(np.empty((0, count)), np.empty((0, count), np.int32), np.zeros(count))
        self._tree = np.empty((0, 2 * self._leaves), np.int32)
        self._all = np.arange(count)
        self._one = np.zeros(1, np.int64)
        self._changes = 0
        self._scarce = np.zeros(len(extent.gpus_by_model))
        self._prepare()
        self._rebuild()

    # -- kinds, mix and weights ---------------------------------------------------------------

    def kind_number(self, kind: RequestKind) -> int:
        """The number of a kind. A new kind is scored on every node."""
        existing = self._registry.kind_number(kind)
        if existing is not None:
            return existing
        number = self._registry.add_kind(kind)
        rows = self._registry.kinds.cpu.shape[0]
        if rows > self._scores.score.shape[0]:
            self._scores = Scores(
                _taller(self._scores.score, rows),
                _taller(self._scores.gpu, rows),
                self._scores.fragmentation,
            )
            self._tree = _taller(self._tree, rows if self._tournament else 0)
        self._compute(self._all, number, number + 1)
        self._build(number, number + 1)
        return number

    def set_mix(self, mix: KindMix, geometry: Geometry) -> None:
        """Use another mix of demand, and the geometry that values holes by it."""
        self._tables = score_tables(mix, self._extent)
        self._registry.revalue(geometry, self._tables.typical)
        self._prepare()
        self._rebuild()

    def set_weights(self, weights: ScoreWeights) -> None:
        if weights != self._weights:
            self._weights = weights
            self._prepare()
            self._rebuild()

    # -- choices ------------------------------------------------------------------------------

    def best_choice(self, kind: int, among: Bools | None = None) -> NodeChoice | None:
        """The best node that fits, of those in `among` if given; None if none fits."""
        if among is None and self._tournament:
            node = self._winner(kind)
        else:
            penalty = self._scarce * self._registry.kinds.amount[kind]
            allowed = self._nodes.usable if among is None else among
            node = winners.best_by_scan(
                self._scores.score[kind], self._nodes.model, penalty, allowed
            )
        return self._choice(kind, node) if node >= 0 else None

    def ranked_nodes(self, kind: int) -> list[int]:
        """The numbers of the nodes that fit, best first."""
        score = self._scores.score[kind]
        score = score - self._scarce[self._nodes.model] * self._registry.kinds.amount[kind]
        order = np.argsort(-score, kind="stable")
        return [int(n) for n in order[: int(np.isfinite(score).sum())]]

    def fitting_node_count(self, kind: int, among: Bools) -> int:
        """On how many of these nodes the kind fits."""
        return int((np.isfinite(self._scores.score[kind]) & among).sum())

    def choice_on(self, kind: int, node: int) -> NodeChoice | None:
        """The choice on one node: which GPUs, and the score; None if the kind does not fit."""
        return self._choice(kind, node) if np.isfinite(self._scores.score[kind, node]) else None

    def fragmentation(self, node: int) -> float:
        """F of a node, in GPUs."""
        return float(self._scores.fragmentation[node])

    # -- changes ------------------------------------------------------------------------------

    def place(self, kind: int, choice: NodeChoice) -> None:
        """Take the CPU, memory and GPUs of a choice that was just made."""
        kinds, nodes, n = self._registry.kinds, self._nodes, choice.node
        nodes.cpu[n] -= kinds.cpu[kind]
        nodes.memory[n] -= kinds.memory[kind]
        for gpu in choice.gpus:
            after = int(kinds.next_states[kind, nodes.states[n, gpu]])
            self._registry.open_state(after)
            nodes.states[n, gpu] = after
        self._changed(n)

    def update(
        self, node: int, cpu_milli: int, memory_mib: int, states: Mapping[int, Hashable]
    ) -> None:
        """Set what a node has free now; `states` has the GPUs that changed."""
        self._nodes.cpu[node], self._nodes.memory[node] = cpu_milli, memory_mib
        for gpu, state in states.items():
            number = self._registry.state_number(state)
            self._registry.open_state(number)
            self._nodes.states[node, gpu] = number
        self._changed(node)

    def set_usable(self, node: int, usable: bool) -> None:
        self._nodes.usable[node] = usable
        self._changed(node)

    def node_room(self, node: int) -> NodeRoom:
        nodes, names = self._nodes, self._registry.states_by_number
        states = tuple(names[s] for s in nodes.states[node, : nodes.gpus[node]])
        return NodeRoom(
            int(nodes.model[node]), int(nodes.cpu[node]), int(nodes.memory[node]), states
        )

    def rescore_all(self) -> None:
        """Compute every score anew. Only scarcity changes, as columns are always up to date."""
        self._rebuild()

    # -- private ------------------------------------------------------------------------------

    def _choice(self, kind: int, node: int) -> NodeChoice:
        kinds, nodes, one = self._registry.kinds, self._nodes, int(self._scores.gpu[kind, node])
        many = () if one >= 0 else chosen_gpus(kinds, self._registry.states, nodes, kind, node)
        gpus = (one,) if one >= 0 else tuple(int(g) for g in many)
        penalty = self._scarce[nodes.model[node]] * kinds.amount[kind]
        return NodeChoice(int(node), gpus, float(self._scores.score[kind, node] - penalty))

    def _winner(self, kind: int) -> int:
        node = int(self._tree[kind, 1])
        return node if node >= 0 and np.isfinite(self._scores.score[kind, node]) else -1

    def _prepare(self) -> None:
        """Pack the tables and weights for the kernels."""
        tables, weights = self._tables, self._weights
        self._fills = Fills(tables.cpu, tables.memory, CPU_STEP, MEMORY_STEP)
        self._packed = np.array(
            [
                weights.fit,
                weights.started,
                weights.fragmentation,
                0.5 / weights.cpu_scale,
                0.5 / weights.gpu_scale,
            ]
        )

    def _changed(self, node: int) -> None:
        registry = self._registry
        self._one[0] = node
        self._compute(self._one, 0, registry.kind_count)
        if self._tournament:
            winners.replay_node(
                self._tree, self._scores.score, self._nodes.model, self._scarce,
                registry.kinds.amount, registry.kind_count, node,
            )  # fmt: skip
        self._changes += 1
        if self._changes % SCARCITY_EVERY == 0:
            self.update_scarcity()

    def _compute(self, which: Ints, a: int, b: int) -> None:
        registry = self._registry
        score_columns(
            which, a, b, self._nodes, registry.kinds, registry.states, registry.typicals,
            self._fills, self._packed, self._scores,
        )  # fmt: skip

    def _build(self, first: int, last: int) -> None:
        if self._tournament:
            winners.build_tournaments(
                self._tree, self._scores.score, self._nodes.model, self._scarce,
                self._registry.kinds.amount, first, last,
            )  # fmt: skip

    def _rebuild(self) -> None:
        self._compute(self._all, 0, self._registry.kind_count)
        self.update_scarcity()
        self._build(0, self._registry.kind_count)

    def update_scarcity(self) -> None:
        """Update the penalty for using GPUs of a model that others need, from what is idle now.

        The engine does so at the start, every SCARCITY_EVERY changes and with every new mix."""
        self._changes = 0
        if not self._tables.shares.any():
            self._scarce = np.zeros(len(self._extent.gpus_by_model))
            return
        nodes, idle = self._nodes, self._registry.states.idle
        exists = np.arange(nodes.states.shape[1]) < nodes.gpus[:, None]
        each = np.where(exists, idle[nodes.states], 0.0)
        usable = np.where(each >= MIN_USABLE_IDLE, each, 0.0).sum(axis=1)
        free = np.bincount(nodes.model, usable, len(self._extent.gpus_by_model)).astype(float)
        capacity = float(sum(self._extent.gpus_by_model))
        scarce = scarcity(self._tables.shares, free, float(each.sum()), capacity)
        self._scarce = self._weights.scarcity * scarce
        self._build(0, self._registry.kind_count)


def _taller(array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """The array with room for this many rows."""
    taller = np.empty((rows, *array.shape[1:]), array.dtype)
    taller[: array.shape[0]] = array
    return taller
