"""What a planning pass answers: places, changes of partitions, preemptions, reservations, holds.

Frozen, JSON-able values; amounts as in `values`.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from agents.contract.documents import SliceKind
from scheduler.core.model.message import NO_MESSAGE, Message
from scheduler.core.model.reasons import Reason


@dataclass(frozen=True, slots=True)
class DevicePlacement:
    """One device for a replica: an existing idle slice (`slice`), or a new one at this place.
    `threads`: percent of the SMs, for an MPS share."""

    gpu: str
    kind: SliceKind
    profile: str
    start: int
    size: int
    units: int
    memory_mib: int
    slice: str = ""
    threads: int = 0


@dataclass(frozen=True, slots=True)
class ReplicaPlacement:
    rank: int
    node: str
    devices: tuple[DevicePlacement, ...]


@dataclass(frozen=True, slots=True)
class JobPlacement:
    """Start this job here: the whole gang, by rank."""

    job: str
    replicas: tuple[ReplicaPlacement, ...]
    message: Message = NO_MESSAGE

    @property
    def sentence(self) -> str:
        """In English."""
        return self.message.text


@dataclass(frozen=True, slots=True)
class Merge:
    """Delete these idle slices of one GPU, so that `for_job` can be placed in a later pass; with
    `for_job` "" so that what is wanted fits at all, as `sentence` says."""

    gpu: str
    slices: tuple[str, ...]
    for_job: str
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Carve:
    """Make this idle slice on an idle place of a GPU, because the mix will want it: whoever asks
    for it next starts at once."""

    gpu: str
    profile: str
    start: int
    size: int
    sentence: str = ""


class PreemptionCause(StrEnum):
    """Why running work is stopped and queued again."""

    PRIORITY = "priority"
    RECLAIM = "reclaim"
    ORDER = "order"
    MOVE = "move"


@dataclass(frozen=True, slots=True)
class Preemption:
    """Stop this running job, with its grace, and queue it again, so that `for_job` can start."""

    job: str
    for_job: str
    cause: PreemptionCause


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nobody may delay this blocked job beyond `starts_at`: work that ends by its limit leaves
    these places free by then. Times in seconds since the epoch."""

    job: str
    starts_at: int
    replicas: tuple[ReplicaPlacement, ...]


@dataclass(frozen=True, slots=True)
class Estimate:
    """When a waiting job will start, in seconds since the epoch: with 10, 50 and 90 % of the
    forecasts. `basis` says what it rests on. A job without any basis has no Estimate."""

    optimistic: int
    expected: int
    pessimistic: int
    basis: Message


@dataclass(frozen=True, slots=True)
class Deferral:
    """Leave this job in the queue. `position` counts from 1 in the order of this pass."""

    job: str
    reason: Reason
    position: int


@dataclass(frozen=True, slots=True)
class Plan:
    """`bypassed`: waiting jobs before which a later arrival of no higher priority started in this
    pass, one more time each; of each band the oldest ones that are not at the limit yet."""

    placements: tuple[JobPlacement, ...] = ()
    merges: tuple[Merge, ...] = ()
    deferrals: tuple[Deferral, ...] = ()
    preemptions: tuple[Preemption, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    bypassed: tuple[str, ...] = field(default=())
    carves: tuple[Carve, ...] = ()
