"""The words of partition changes: what is wanted, the steps to it, and what stands against it."""

from dataclasses import dataclass, field

from agents.contract.documents import Device
from agents.facts.device_keys import device_key

Place = tuple[str, int, int]  # GPU UUID, start, size; a whole GPU has size 0


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


@dataclass(frozen=True, slots=True)
class Problem:
    """What could not be done, and why. `slice`: the wanted slice's id, where it is about one."""

    gpu_uuid: str
    code: str
    sentence: str
    slice: str = ""


@dataclass
class Changes:
    """The steps in order, and what cannot be wanted together."""

    steps: list[Step] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def gpu_of(step: Step) -> str:
    """The UUID of the GPU that a step changes."""
    return step.slice.gpu_uuid if isinstance(step, Create) else step.gpu_uuid


def place_of(device: Device) -> Place:
    """Where a replica's device is, whatever its profile."""
    gpu_uuid, _, start, size = device_key(device)
    return (gpu_uuid, start, size)
