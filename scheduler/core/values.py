"""What the planner is told (ClusterSnapshot) and what it answers (Plan). Frozen, JSON-able values.

Ids are opaque texts. Amounts are integers: units of 1/56,000 GPU, CPU in millicores, memory in MiB,
times in whole seconds since the Unix epoch.
"""

from dataclasses import dataclass
from enum import StrEnum

from agents.contract.boards import Profile
from agents.contract.documents import GpuMode, SliceKind
from scheduler.core.reasons import Reason


class Topology(StrEnum):
    """How close the devices of a gang must be."""

    BEST = "best"
    SAME_NODE = "same-node"
    NVLINK = "nvlink"
    ANY = "any"


class Isolation(StrEnum):
    HARDWARE = "hardware"
    ANY = "any"


class Priority(StrEnum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


PRIORITY_RANK: dict[Priority, int] = {Priority.HIGH: 0, Priority.NORMAL: 1, Priority.LOW: 2}


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """What each replica gets; exactly one of gpus, mig, memory_mib, mps_threads is set.

    `mig` is a profile name. `memory_mib`: at least this much on one device, the cheapest kind that
    serves; an MPS share only where `isolation` is any. `mps_threads`: percent of the SMs.
    `models` narrows to boards by model ("H200") or key ("H200-141GB"); empty = any.
    """

    gpus: int = 0
    mig: str = ""
    memory_mib: int = 0
    mps_threads: int = 0
    mps_memory_mib: int = 0
    models: tuple[str, ...] = ()
    isolation: Isolation = Isolation.HARDWARE


@dataclass(frozen=True, slots=True)
class SliceView:
    """A live slice on a GPU. `held` = a live allocation exists; only idle ready ones are reusable.

    For whole GPUs and MPS shares start is 0 and size covers the board. Only a share has `threads`
    (percent), `memory_mib`, `clients` (processes of its MPS server) and a `project`.
    """

    id: str
    kind: SliceKind
    profile: str
    start: int
    size: int
    held: bool
    ready: bool
    threads: int = 0
    memory_mib: int = 0
    clients: int = 0
    project: str = ""


@dataclass(frozen=True, slots=True)
class GpuView:
    """A GPU as the planner sees it. `board` is a key of `agents.contract.boards`, or the product's
    name with the `profiles` that its driver tells."""

    id: str
    index: int
    board: str
    product_name: str
    memory_mib: int
    mode: GpuMode
    healthy: bool
    slices: tuple[SliceView, ...] = ()
    numa_node: int | None = None
    profiles: tuple[Profile, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node. `available` = online, schedulable, not blocked. `share_clients`: how many processes
    one GPU's MPS server takes; 0 where the node gives no MPS shares."""

    id: str
    name: str
    available: bool
    fabric: str
    cpu_free_milli: int
    memory_free_mib: int
    cpu_total_milli: int
    memory_total_mib: int
    gpus: tuple[GpuView, ...] = ()
    unavailable_because: str = ""
    share_clients: int = 0


@dataclass(frozen=True, slots=True)
class QuotaView:
    """Units that a project, or a user inside a project, may hold at once. user "" = the project."""

    project: str
    user: str
    limit_units: int
    used_units: int


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A queued job. `queued_at` in seconds; `cpu_milli`, `memory_mib`, `processes` are per
    replica."""

    id: str
    name: str
    project: str
    user: str
    priority: Priority
    queued_at: int
    replicas: int
    device: DeviceRequest
    cpu_milli: int
    memory_mib: int
    topology: Topology = Topology.BEST
    processes: int = 1


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """All that one planning pass may know."""

    now: int
    nodes: tuple[NodeView, ...] = ()
    jobs: tuple[WaitingJob, ...] = ()
    quotas: tuple[QuotaView, ...] = ()


@dataclass(frozen=True, slots=True)
class SlicePlace:
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
class ReplicaPlace:
    rank: int
    node: str
    devices: tuple[SlicePlace, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Start this job here: the whole gang, by rank."""

    job: str
    replicas: tuple[ReplicaPlace, ...]
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Merge:
    """Delete these idle slices of one GPU, so that `for_job` can be placed in a later pass."""

    gpu: str
    slices: tuple[str, ...]
    for_job: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Leave this job in the queue. `position` counts from 1 in the order of this pass."""

    job: str
    reason: Reason
    position: int


@dataclass(frozen=True, slots=True)
class Plan:
    places: tuple[Place, ...] = ()
    merges: tuple[Merge, ...] = ()
    holds: tuple[Hold, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """What the planner may do, as values. Defaults are the product's defaults."""

    merge: bool = True
