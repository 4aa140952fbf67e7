"""What a count of availability consists of."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from agents.contract.documents import SliceKind


class Category(StrEnum):
    """What a part of a GPU is to a new request."""

    FREE = "free"
    """Nothing has to be deleted first."""
    RECARVABLE = "recarvable"
    """Idle slices, which the queue deletes for other sizes within seconds."""
    HELD = "held"
    """Allocated to jobs."""
    SHARED = "shared"
    """Beside MPS shares of a project, which alone may use it."""
    RESERVED = "reserved"
    """Kept by the last pass for jobs that wait until slices are deleted or jobs have stopped, or
    that have just been placed."""
    UNUSABLE = "unusable"
    """No device fits: the held slices leave no place, an admin pinned the GPU, or its node has no
    CPU or memory left."""
    OUT_OF_SERVICE = "out_of_service"
    """Of a GPU with a fault or a foreign process, what no job holds."""
    NODE_UNAVAILABLE = "node_unavailable"
    """Of a node that takes no work, what no job holds."""


class DeviceKind(NamedTuple):
    """A kind of device on a board. `profile`: of a MIG slice."""

    kind: SliceKind
    profile: str = ""


WHOLE_GPU = DeviceKind(SliceKind.GPU)
# Counted in GPUs that have room for a share.
MPS_SHARE = DeviceKind(SliceKind.MPS)


@dataclass(slots=True)
class DeviceCount:
    """How many more devices of one kind could start now."""

    ready: int = 0
    """Without a change: idle slices, empty GPUs."""
    carvable: int = 0
    """By carving: MIG slices, and MPS shares on empty GPUs."""
    recarvable: int = 0
    """After idle slices were deleted."""
    total: int = 0
    """If everything in service were empty."""

    @property
    def available(self) -> int:
        return self.ready + self.carvable + self.recarvable

    def add(self, other: "DeviceCount") -> None:
        self.ready += other.ready
        self.carvable += other.carvable
        self.recarvable += other.recarvable
        self.total += other.total


@dataclass(slots=True)
class Availability:
    """Some GPUs: of a board, of a node, or all."""

    gpus: int = 0
    in_service: int = 0
    """Healthy, without a foreign process, on nodes that take work."""
    out_of_service: int = 0
    """With a fault or a foreign process."""
    on_unavailable_nodes: int = 0
    """Healthy, on nodes that take no work. The three add up to `gpus`."""
    idle_slices: int = 0
    """MIG slices in service that are ready and held by no job."""
    units: Counter[Category] = field(default_factory=Counter)
    devices: dict[DeviceKind, DeviceCount] = field(default_factory=dict)

    def add(self, other: "Availability") -> None:
        self.gpus += other.gpus
        self.in_service += other.in_service
        self.out_of_service += other.out_of_service
        self.on_unavailable_nodes += other.on_unavailable_nodes
        self.idle_slices += other.idle_slices
        # Pages add up thousands of these, so no `Counter.update` and no spare DeviceCount.
        for category, units in other.units.items():
            self.units[category] += units
        for kind, count in other.devices.items():
            if (sum_of_kind := self.devices.get(kind)) is None:
                sum_of_kind = self.devices[kind] = DeviceCount()
            sum_of_kind.add(count)

    def of(self, kind: DeviceKind) -> DeviceCount:
        return self.devices.get(kind) or DeviceCount()

    @property
    def free_gpus(self) -> int:
        """Whole GPUs that could start now."""
        return self.of(WHOLE_GPU).available

    @property
    def has_room(self) -> bool:
        """Whether any device at all could start now."""
        return any(count.available for count in self.devices.values())


def availability_sum(parts: Iterable[Availability]) -> Availability:
    """The same for all of them together."""
    found = Availability()
    for part in parts:
        found.add(part)
    return found
