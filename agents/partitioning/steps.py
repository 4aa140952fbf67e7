"""The values of partition changes: desired slices, steps, and the result of a diff."""

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
class SetMigMode:
    gpu_uuid: str
    mig: bool


@dataclass(frozen=True, slots=True)
class CreateInstance:
    slice: WantedSlice
    profile_id: int


@dataclass(frozen=True, slots=True)
class CompleteInstance:
    """Add the compute instance that a GPU instance lost or never got."""

    gpu_uuid: str
    instance_id: int


@dataclass(frozen=True, slots=True)
class DestroyInstance:
    gpu_uuid: str
    instance_id: int
    start: int
    size: int


PartitionStep = SetMigMode | CreateInstance | CompleteInstance | DestroyInstance


@dataclass
class PartitionChanges:
    """The steps in order, and the problems that no step can solve."""

    steps: list[PartitionStep] = field(default_factory=list)
    problems: list[PartitionProblem] = field(default_factory=list)


def gpu_of(step: PartitionStep) -> str:
    """The UUID of the GPU that a step changes."""
    return step.slice.gpu_uuid if isinstance(step, CreateInstance) else step.gpu_uuid
