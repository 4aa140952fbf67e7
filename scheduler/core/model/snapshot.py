"""What the planner is told: one ClusterSnapshot. Frozen, JSON-able values.

Ids are opaque texts. Amounts are integers: units of 1/56,000 GPU, CPU in millicores, memory in MiB,
times in whole seconds since the Unix epoch.
"""

from dataclasses import dataclass
from enum import StrEnum

from agents.contract.boards import Profile
from agents.contract.documents import GpuMode, SliceKind
from scheduler.core.model.decisions import ReplicaPlacement
from scheduler.core.model.links import UNKNOWN, Links


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
    allocated: bool
    ready: bool
    threads: int = 0
    memory_mib: int = 0
    clients: int = 0
    project: str = ""


@dataclass(frozen=True, slots=True)
class GpuView:
    """A GPU as the planner sees it. `board` is a key of `agents.contract.boards`, or the product's
    name with the `profiles` that its driver tells.

    `pinned`: an admin keeps its partitions as they are. `settles_at`: idle slices on it are not
    deleted before that time, so that a GPU is not carved back and forth."""

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
    pinned: bool = False
    settles_at: int = 0


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node. `available` = online, schedulable, not blocked. `share_clients`: how many processes
    one GPU's MPS server takes; 0 where the node gives no MPS shares. `labels` are what jobs may ask
    for; only jobs that tolerate every one of its `taints` run here. Why it is not available:
    `unavailable_key` of `templates` with `unavailable_because` as its `why`, or with "" just that
    text. `disk_total_mib`: what jobs may
    have of its disk; None where its agent does not say, and then `disk_free_mib` is 0."""

    id: str
    name: str
    available: bool
    fabric: str
    cpu_free_milli: int
    memory_free_mib: int
    cpu_total_milli: int
    memory_total_mib: int
    gpus: tuple[GpuView, ...] = ()
    unavailable_reason: str = ""
    share_clients: int = 0
    labels: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()
    links: Links = UNKNOWN
    disk_free_mib: int = 0
    disk_total_mib: int | None = None
    unavailable_key: str = ""

    @property
    def leaf(self) -> str:
        """The leaf switch of its network, by its label `leaf=…`; "" where nobody said."""
        return next((text[5:] for text in self.labels if text.startswith("leaf=")), "")


@dataclass(frozen=True, slots=True)
class QuotaView:
    """Units that a project, or a user inside a project, may hold at once. user "" = the project;
    `model` "" = of every model of GPU.

    A project may borrow up to `borrow_units` beyond its limit, of what others lend: each at most
    `lend_units` of what it leaves idle. Users borrow with their project."""

    project: str
    user: str
    limit_units: int
    used_units: int
    model: str = ""
    borrow_units: int = 0
    lend_units: int = 0


@dataclass(frozen=True, slots=True)
class BudgetView:
    """Unit-seconds that a project (or a user in it) may use until `ends_at`. `held` is what its
    running work will have used by its limits."""

    project: str
    user: str
    limit_unit_seconds: int
    used_unit_seconds: int
    reserved_unit_seconds: int
    ends_at: int


@dataclass(frozen=True, slots=True)
class OwnerView:
    """A user in a project, or with user "" the project: its weight among its siblings, what it used
    (decayed to now by the half-life), and how many jobs may run at once (0 = as many as fit).

    Each of `used_*` is in amount-seconds: units of GPU, millicores, MiB."""

    project: str
    user: str
    weight: int = 1
    used_units: int = 0
    used_cpu_milli: int = 0
    used_memory_mib: int = 0
    max_running: int = 0


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A queued job. `queued_at` in seconds; `cpu_milli`, `memory_mib`, `disk_mib` (0 = none asked
    for), `processes` are per replica.

    `limit_is_chosen`: the user chose the time limit, so it says something of the run time.
    `attained_seconds`: useful running time so far, over all attempts. `preempted`: how often it was
    stopped for others, of which it may be only where `preemptible`. `bypassed`: how often a later
    job started before it. `after`: jobs that must end first; `begin_at`: not before this time.
    `needs`: labels that a node must have; `tolerates`: taints that it may have. `group`: what makes
    runs of one user alike, such as the name without its numbers."""

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
    time_limit_seconds: int = 4 * 3_600
    limit_is_chosen: bool = True
    attained_seconds: int = 0
    preemptible: bool = False
    preempted: int = 0
    bypassed: int = 0
    begin_at: int = 0
    after: tuple[str, ...] = ()
    hold_reason: str = ""
    needs: tuple[str, ...] = ()
    tolerates: tuple[str, ...] = ()
    group: str = ""
    disk_mib: int = 0


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that holds devices, and which ones; each device of `replicas` names its slice.

    `started_at`: when it began to hold them. `stopping`: it gives them back already."""

    job: WaitingJob
    replicas: tuple[ReplicaPlacement, ...]
    started_at: int
    stopping: bool = False

    @property
    def ends_at(self) -> int:
        """When its limit ends it at the latest."""
        return self.started_at + self.job.time_limit_seconds - self.job.attained_seconds


@dataclass(frozen=True, slots=True)
class Demand:
    """One kind of request in the mix seen lately, and how often."""

    device: DeviceRequest
    cpu_milli: int
    memory_mib: int
    count: int


@dataclass(frozen=True, slots=True)
class DemandMix:
    """What was asked for lately. `departing`: ended jobs per started one in that time, 0 while the
    cluster only fills, about 1 in steady state."""

    demands: tuple[Demand, ...] = ()
    departures_per_start: float = 1.0


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run that ended by itself (`completed`) or was cut off by its limit, a cancel or a fault.

    `gpus`: 0 for a slice or a share. `queued_at`: 0 where nobody noted it."""

    project: str
    user: str
    group: str
    gpus: int
    limit_seconds: int
    limit_is_chosen: bool
    ran_seconds: int
    completed: bool
    ended_at: int
    queued_at: int = 0


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """All that one planning pass may know. `past` in the order of `ended_at`."""

    now: int
    nodes: tuple[NodeView, ...] = ()
    jobs: tuple[WaitingJob, ...] = ()
    quotas: tuple[QuotaView, ...] = ()
    running: tuple[RunningJob, ...] = ()
    budgets: tuple[BudgetView, ...] = ()
    owners: tuple[OwnerView, ...] = ()
    mix: DemandMix = DemandMix()
    history: tuple[PastRun, ...] = ()
