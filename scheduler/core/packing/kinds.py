"""Values of the packing engine: request kinds, GPU states and choices."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RequestKind:
    """Requests that are equal to placement. All amounts are for one node."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    """How many GPUs of the node it uses, each with `shape`."""
    amount: float
    """What it uses of all of them together, in GPUs."""
    shape: Hashable = None
    """What it uses of each GPU, as the geometry understands it."""
    models: frozenset[int] | None = None
    """Numbers of the models that it may use; None means any."""

    @property
    def gpus_each(self) -> float:
        """What it takes of each GPU, in GPUs."""
        return self.amount / self.gpus if self.gpus else 0.0

    @property
    def is_share(self) -> bool:
        return self.gpus == 1 and self.amount < 1.0

    def allows(self, model: int) -> bool:
        return self.models is None or model in self.models


KindMix = Mapping[RequestKind, float]  # how often each kind is requested, in any unit


@dataclass(frozen=True, slots=True)
class StateFacts:
    """What the engine needs to know about a GPU state."""

    value: float
    """What the idle part of the GPU is worth, in GPUs."""
    idle: float
    """How much is idle, in GPUs."""
    started: bool
    """Partly used, partly idle."""


@dataclass(frozen=True, slots=True)
class Transition:
    """The state after a shape is placed on a GPU."""

    state: Hashable
    preference: float = 0.0
    """Added to the score, in GPUs."""


class Geometry(Protocol):
    """How GPUs are divided. States are hashable; interchangeable GPUs have equal states."""

    def facts(self, state: Hashable) -> StateFacts: ...

    def transition(self, state: Hashable, shape: Hashable) -> Transition | None:
        """The state after placing the shape; None if it does not fit."""
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
    """A node and some of its GPUs."""

    node: int
    gpus: tuple[int, ...]
    score: float
    """In GPUs; higher is better."""
