"""Numbers for states and kinds, and the arrays over them. Both grow as new ones appear.

A state that a GPU is in is *open*: the transitions of all kinds from it are known. A state that can
only follow an open one has just its facts and the typical kinds that fit it, which is all that a
score needs. So a geometry with very many states costs only those that occur.
"""

from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from scheduler.core.packing.fragmentation import TypicalKinds
from scheduler.core.packing.kernels import Kinds, Nodes, States, Typicals
from scheduler.core.packing.kinds import Geometry, NodeRoom, RequestKind

_START = 64
Arrays = TypeVar("Arrays", States, Kinds, Typicals)


class KindRegistry:
    def __init__(self, geometry: Geometry, typical: TypicalKinds, models: int) -> None:
        self.states_by_number: list[Hashable] = []
        self._kinds: list[RequestKind] = []
        self._kind_numbers: dict[RequestKind, int] = {}
        self._state_numbers: dict[Hashable, int] = {}
        self._open: list[bool] = []
        self._models = models
        self._geometry, self._typical = geometry, typical
        self.states = States(np.zeros(_START), np.zeros(_START), np.zeros(_START, bool))
        self.kinds = _kinds(_START, models, _START)
        self.typicals = _typicals(typical, models, _START)

    @property
    def kind_count(self) -> int:
        return len(self._kinds)

    def kind_number(self, kind: RequestKind) -> int | None:
        return self._kind_numbers.get(kind)

    def add_kind(self, kind: RequestKind) -> int:
        k = self._kind_numbers[kind] = len(self._kinds)
        self._kinds.append(kind)
        if k == self.kinds.cpu.shape[0]:
            self.kinds = _grown(self.kinds, _kinds(2 * k, self._models, len(self.states.idle)))
        self.kinds.cpu[k], self.kinds.memory[k] = kind.cpu_milli, kind.memory_mib
        self.kinds.gpus[k], self.kinds.amount[k] = kind.gpus, kind.amount
        self.kinds.share[k] = kind.is_share
        self.kinds.allowed[k] = _allowed(kind, self._models)
        for state, is_open in enumerate(list(self._open)):
            if is_open:
                self._step(k, state)
        return k

    def state_number(self, name: Hashable) -> int:
        """The number of a state. A new one is looked up in the geometry."""
        number = self._state_numbers.get(name)
        if number is not None:
            return number
        number = self._state_numbers[name] = len(self.states_by_number)
        self.states_by_number.append(name)
        self._open.append(False)
        if number == len(self.states.idle):
            self._widen(2 * number)
        self._describe(number)
        return number

    def open_state(self, number: int) -> None:
        """Work out the transitions of all kinds from a state."""
        if not self._open[number]:
            self._open[number] = True
            for k in range(len(self._kinds)):
                self._step(k, number)

    def revalue(self, geometry: Geometry, typical: TypicalKinds) -> None:
        """Use other values of the same states, and other typical kinds. Transitions stay."""
        self._geometry, self._typical = geometry, typical
        self.typicals = _typicals(typical, self._models, len(self.states.idle))
        for number in range(len(self.states_by_number)):
            self._describe(number)

    def _step(self, k: int, state: int) -> None:
        kind = self._kinds[k]
        step = (
            self._geometry.transition(self.states_by_number[state], kind.shape)
            if kind.gpus
            else None
        )
        after = self.state_number(step.state) if step else -1  # may widen the arrays
        self.kinds.next_states[k, state] = after
        self.kinds.preference[k, state] = step.preference if step else 0.0

    def _describe(self, number: int) -> None:
        name = self.states_by_number[number]
        facts = self._geometry.facts(name)
        self.states.value[number], self.states.idle[number] = facts.value, facts.idle
        self.states.started[number] = facts.started
        for t, (kind, _) in enumerate(self._typical):
            fits = kind.gpus > 0 and self._geometry.transition(name, kind.shape) is not None
            self.typicals.fits[t, number] = fits

    def _widen(self, states: int) -> None:
        empty = States(np.zeros(states), np.zeros(states), np.zeros(states, bool))
        self.states = _grown(self.states, empty)
        self.kinds = _grown(self.kinds, _kinds(len(self.kinds.cpu), self._models, states))
        self.typicals = _grown(self.typicals, _typicals(self._typical, self._models, states))


def node_arrays(nodes: Sequence[NodeRoom], gpus: int, registry: KindRegistry) -> Nodes:
    """Nodes with at most `gpus` GPUs each, all usable, with their states open."""
    states = np.zeros((len(nodes), max(gpus, 1)), np.int32)
    for n, node in enumerate(nodes):
        for g, name in enumerate(node.states):
            states[n, g] = registry.state_number(name)
            registry.open_state(int(states[n, g]))
    return Nodes(
        cpu=np.array([node.cpu_milli for node in nodes], np.int64),
        memory=np.array([node.memory_mib for node in nodes], np.int64),
        model=np.array([node.model for node in nodes], np.int64),
        gpus=np.array([len(node.states) for node in nodes], np.int64),
        states=states,
        usable=np.ones(len(nodes), bool),
    )


def _kinds(kinds: int, models: int, states: int) -> Kinds:
    return Kinds(
        cpu=np.zeros(kinds, np.int64),
        memory=np.zeros(kinds, np.int64),
        gpus=np.zeros(kinds, np.int64),
        share=np.zeros(kinds, bool),
        amount=np.zeros(kinds),
        allowed=np.zeros((kinds, models), bool),
        next_states=np.full((kinds, states), -1, np.int32),
        preference=np.zeros((kinds, states)),
    )


def _typicals(typical: TypicalKinds, models: int, states: int) -> Typicals:
    kinds = [kind for kind, _ in typical]
    return Typicals(
        cpu=np.array([kind.cpu_milli for kind in kinds], np.int64),
        gpus=np.array([kind.gpus for kind in kinds], np.int64),
        share=np.array([share for _, share in typical], float),
        allowed=np.array([_allowed(k, models) for k in kinds], bool).reshape(len(kinds), models),
        fits=np.zeros((len(kinds), states), bool),
    )


def _allowed(kind: RequestKind, models: int) -> list[bool]:
    return [kind.allows(model) for model in range(models)]


def _grown(old: Arrays, larger: Arrays) -> Arrays:
    """The larger arrays, filled with the contents of the old ones."""
    pairs: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = list(zip(old, larger, strict=True))
    for before, after in pairs:
        after[tuple(slice(length) for length in before.shape)] = before
    return larger
