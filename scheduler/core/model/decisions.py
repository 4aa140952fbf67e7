"""The output of a planning pass: one `Plan` of frozen, JSON-able values.

Amounts are as in `scheduler.core.model.snapshot`.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from agents.contract.documents import SliceKind
from agents.contract.message import NO_MESSAGE, Message
from scheduler.core.model.reasons import Reason


@dataclass(frozen=True, slots=True)
class DevicePlacement:
    """One device for a replica: an existing idle slice, or a new one at this place."""

    gpu: str
    kind: SliceKind
    profile: str
    start: int
    size: int
    units: int
    memory_mib: int
    slice: str = ""
    """The id of the existing slice; "" for a new one."""
    threads: int = 0
    """Percent of the SMs, for an MPS share."""


@dataclass(frozen=True, slots=True)
class ReplicaPlacement:
    """The node and the devices of one replica."""

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
        """The message in English."""
        return self.message.text


@dataclass(frozen=True, slots=True)
class Merge:
    """Delete these idle slices of one GPU to make room."""

    gpu: str
    slices: tuple[str, ...]
    for_job: str
    """The job that can be placed in a later pass; "" if the room is for expected demand."""
    message: Message = NO_MESSAGE


@dataclass(frozen=True, slots=True)
class Carve:
    """Make this idle slice on a free place of a GPU: the mix of demand will probably want it, and
    the next job that requests it then starts at once."""

    gpu: str
    profile: str
    start: int
    size: int
    message: Message = NO_MESSAGE


class PreemptionCause(StrEnum):
    """Why a running job is stopped and queued again."""

    PRIORITY = "priority"
    RECLAIM = "reclaim"
    ORDER = "order"
    MOVE = "move"
    QUOTA = "quota"


@dataclass(frozen=True, slots=True)
class Preemption:
    """Stop this running job, with its grace period, and queue it again so that `for_job` can
    start."""

    job: str
    for_job: str
    cause: PreemptionCause


@dataclass(frozen=True, slots=True)
class Resize:
    """Stop this running gang, with its grace period, and queue it again: it could have more
    replicas."""

    job: str
    replicas: int
    """How many it has."""
    size: int
    """How many it could have."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A start time and place promised to a blocked job, which no other job may delay.

    Running work that ends by its time limit leaves these devices free by then.
    """

    job: str
    starts_at: int
    replicas: tuple[ReplicaPlacement, ...]


@dataclass(frozen=True, slots=True)
class Estimate:
    """When a waiting job is expected to start: the 10, 50 and 90 % quantiles of the forecasts.

    A job without a basis for a forecast has no estimate.
    """

    optimistic: int
    expected: int
    pessimistic: int
    basis: Message
    """What the estimate rests on."""


@dataclass(frozen=True, slots=True)
class Deferral:
    """Leave this job in the queue."""

    job: str
    reason: Reason
    position: int
    """Counts from 1 in the queue order of this pass."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """Where a pass that was stopped ended; the next pass goes on from there.

    A pass that began again at the front of the queue would be stopped again behind the same blocked
    jobs, and never reach the rest.
    """

    considered: tuple[str, ...]
    """Jobs that had their turn and still wait, in this pass or in those that it continued."""
    considered_again: tuple[str, ...]
    """Those of them that hold something, such as a reservation: the next pass has to give them
    another turn, so that later jobs leave it to them."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All decisions of one pass."""

    placements: tuple[JobPlacement, ...] = ()
    merges: tuple[Merge, ...] = ()
    deferrals: tuple[Deferral, ...] = ()
    preemptions: tuple[Preemption, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    bypassed: tuple[str, ...] = field(default=())
    """Waiting jobs to count one more bypass for, because a later arrival of no higher priority
    starts in this pass: the oldest ones of each priority band that are below the limit."""
    carves: tuple[Carve, ...] = ()
    resizes: tuple[Resize, ...] = ()
    continuation: Continuation | None = None
    """None if every waiting job has had its turn."""
