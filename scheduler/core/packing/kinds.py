"""The words of placement: what a request is, what a GPU's state is, and what was chosen."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RequestKind:
    """Requests that are the same to placement. CPU in millicores, memory in MiB, both for one node.

    `gpus` of one node's GPUs are used, each by `shape`, which the geometry understands; `amount` is
    what they come to in GPUs. `models`: numbers of the models it may have; None = any.
    """

    cpu_milli: int
    memory_mib: int
    gpus: int
    amount: float
    shape: Hashable = None
    models: frozenset[int] | None = None

    @property
    def gpus_each(self) -> float:
        """What it takes of each GPU, in GPUs."""
        return self.amount / self.gpus if self.gpus else 0.0

    @property
    def is_share(self) -> bool:
        return self.gpus == 1 and self.amount < 1.0

    def allows(self, model: int) -> bool:
        return self.models is None or model in self.models


KindMix = Mapping[RequestKind, float]  # how often each kind was asked for, in any unit


@dataclass(frozen=True, slots=True)
class StateFacts:
    """A GPU in some state: what its idle part is worth and how much is idle, both in GPUs.
    `started`: some of it is used, some idle."""

    value: float
    idle: float
    started: bool


@dataclass(frozen=True, slots=True)
class Transition:
    """What a shape makes of a state. `preference` in GPUs adds to the score."""

    state: Hashable
    preference: float = 0.0


class Geometry(Protocol):
    """How GPUs are divided. A state is any hashable value, the same one for GPUs that are alike."""

    def facts(self, state: Hashable) -> StateFacts: ...

    def transition(self, state: Hashable, shape: Hashable) -> Transition | None:
        """None where the shape does not fit."""
        ...


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """What a node has free. `model` is a number below the engine's count of models."""

    model: int
    cpu_milli: int
    memory_mib: int
    states: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """The node's number and which of its GPUs. `score` in GPUs: higher is better."""

    node: int
    gpus: tuple[int, ...]
    score: float
