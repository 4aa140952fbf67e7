"""The words of partition changes: what is wanted, the steps to it, and what stands against it."""

from dataclasses import dataclass, field

from agents.facts.partitions import PartitionProblem


@dataclass(frozen=True, slots=True, order=True)
class WantedSlice:
    """A MIG instance that should exist."""

    gpu_uuid: str
    profile: str
    start: int
    size: int
    id: str = ""


@dataclass(frozen=True, slots=True)
class SetMode:
    gpu_uuid: str
    mig: bool


@dataclass(frozen=True, slots=True)
class Create:
    slice: WantedSlice
    profile_id: int


@dataclass(frozen=True, slots=True)
class Complete:
    """A GPU instance that lost, or never got, its compute instance."""

    gpu_uuid: str
    instance_id: int


@dataclass(frozen=True, slots=True)
class Destroy:
    gpu_uuid: str
    instance_id: int
    start: int
    size: int


Step = SetMode | Create | Complete | Destroy


@dataclass
class Changes:
    """The steps in order, and what cannot be wanted together."""

    steps: list[Step] = field(default_factory=list)
    problems: list[PartitionProblem] = field(default_factory=list)


def gpu_of(step: Step) -> str:
    """The UUID of the GPU that a step changes."""
    return step.slice.gpu_uuid if isinstance(step, Create) else step.gpu_uuid
