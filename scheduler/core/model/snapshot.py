"""The input of a planning pass: one `ClusterSnapshot` of frozen, JSON-able values.

Ids are opaque strings. Amounts are integers: GPU in units of 1/56,000 GPU, CPU in millicores,
memory in MiB, times in whole seconds since the Unix epoch.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from agents.combinations.commands import NO_TRAITS, CommandTraits
from agents.contract.boards import Profile
from agents.contract.codec import omitted_by_default
from agents.contract.documents import CollectiveBackend, GpuMode, SliceKind
from agents.contract.egress import EgressPolicy
from agents.contract.image_needs import NO_FIT, NO_NEEDS, ImageNeeds, NodeFit
from agents.contract.launcher_names import FIRST_LAUNCHERS, LauncherName
from scheduler.core.model.decisions import ReplicaPlacement
from scheduler.core.model.links import UNKNOWN, Links

# The most replicas that any job may have.
MAX_GANG = 4_096


class Topology(StrEnum):
    """How close the devices of a gang must be."""

    BEST = "best"
    SAME_NODE = "same-node"
    NVLINK = "nvlink"
    ANY = "any"


# The whole gang has to be on one node.
SINGLE_NODE = frozenset({Topology.SAME_NODE, Topology.NVLINK})


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
    """What each replica gets. Exactly one of gpus, mig, memory_mib and mps_threads is set."""

    gpus: int = 0
    mig: str = ""
    """A profile name."""
    memory_mib: int = 0
    """At least this much on one device, of the cheapest kind that has it."""
    mps_threads: int = 0
    """Percent of the SMs."""
    mps_memory_mib: int = 0
    models: tuple[str, ...] = ()
    """Boards to choose from, by model ("H200") or key ("H200-141GB"); empty means any."""
    isolation: Isolation = Isolation.HARDWARE
    """An amount of memory may become an MPS share only where this is `any`."""


@dataclass(frozen=True, slots=True)
class SliceView:
    """A live slice on a GPU. A whole GPU or an MPS share starts at 0 and covers the board."""

    id: str
    kind: SliceKind
    profile: str
    start: int
    size: int
    """Memory slices."""
    allocated: bool
    """Whether it has a live allocation. Only idle slices that are ready can be reused."""
    ready: bool
    threads: int = 0
    """Percent of the SMs. This and the following fields are set for MPS shares only."""
    memory_mib: int = 0
    clients: int = 0
    """Processes of its MPS server."""
    project: str = ""


@dataclass(frozen=True, slots=True)
class GpuView:
    """A GPU as the planner sees it."""

    id: str
    index: int
    board: str
    """A key of `agents.contract.boards`, or the product name of a board unknown there."""
    product_name: str
    memory_mib: int
    mode: GpuMode
    healthy: bool
    slices: tuple[SliceView, ...] = ()
    numa_node: int | None = None
    profiles: tuple[Profile, ...] = ()
    """The profiles that the driver reports for an unknown board."""
    pinned: bool = False
    """An admin keeps its partitions as they are."""
    settles_at: int = 0
    """Its idle slices are not deleted before this time, so that it is not carved back and forth."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node with its GPUs, and what jobs may have of its CPU, memory and disk."""

    id: str
    name: str
    available: bool
    """Online, schedulable and not blocked by its agent."""
    fabric: str
    cpu_free_milli: int
    memory_free_mib: int
    cpu_total_milli: int
    memory_total_mib: int
    gpus: tuple[GpuView, ...] = ()
    unavailable_reason: str = ""
    """Parameter `why` of the message `unavailable_key`, or the message itself without a key."""
    share_clients: int = 0
    """Processes that the MPS server of one GPU serves; 0 if the node offers no MPS shares."""
    labels: tuple[str, ...] = ()
    """Labels that jobs may require."""
    taints: tuple[str, ...] = ()
    """Only jobs that tolerate every taint run here."""
    links: Links = UNKNOWN
    disk_free_mib: int = 0
    disk_total_mib: int | None = None
    """Disk for jobs. None if the agent does not report it; `disk_free_mib` is 0 then."""
    unavailable_key: str = ""
    launchers: tuple[str, ...] = FIRST_LAUNCHERS
    """Names of launchers that its agent knows."""
    agent_version: str = ""
    volume_access: tuple[str, ...] = ()
    """The roots of volumes that it offers, in the words of agents.contract.volumes.root_access."""
    rdma: str = ""
    """The link layer of the RDMA devices that gangs may use; empty if it offers none."""
    git_hosts: tuple[str, ...] = ()
    """Hosts from which it fetches code, some with a port."""
    fit: NodeFit = NO_FIT
    """What images may need: its driver and its architecture."""
    overlay: str = ""
    """How it joins gangs over several nodes, if these need a network of their own there."""
    limits_egress: bool = field(default=False, metadata=omitted_by_default())
    """Whether it keeps jobs from what their project may not reach."""

    @property
    def leaf(self) -> str:
        """The leaf switch of its network, from its label `leaf=…`; "" if unknown."""
        return next((text[5:] for text in self.labels if text.startswith("leaf=")), "")


@dataclass(frozen=True, slots=True)
class QuotaView:
    """Units that a project, or a user in it, may have allocated at once."""

    project: str
    user: str
    """"" for the project's own quota."""
    limit_units: int
    used_units: int
    model: str = ""
    """A model of GPU; "" counts GPUs of every model."""
    borrow_units: int = 0
    """How far the project may go beyond its limit, out of what others lend. Users borrow with
    their project."""
    lend_units: int = 0
    """How much of its idle quota the project lends at most."""


@dataclass(frozen=True, slots=True)
class BudgetView:
    """Unit-seconds that a project, or a user in it, may use until `ends_at`."""

    project: str
    user: str
    limit_unit_seconds: int
    used_unit_seconds: int
    reserved_unit_seconds: int
    """What running work may still use before its time limits."""
    ends_at: int


@dataclass(frozen=True, slots=True)
class OwnerView:
    """Fair-share record of a user in a project, or of the project itself (user "").

    Each of `used_*` is in amount-seconds, decayed to now by the half-life.
    """

    project: str
    user: str
    weight: int = 1
    """Relative to its siblings."""
    used_units: int = 0
    used_cpu_milli: int = 0
    used_memory_mib: int = 0
    max_running: int = 0
    """Jobs that may run at once; 0 for no cap."""


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A queued job. CPU, memory, disk and processes are per replica."""

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
    """Whether the user chose the time limit. A chosen limit says something about the run time."""
    attained_seconds: int = 0
    """Useful running time so far, over all attempts."""
    preemptible: bool = False
    preempted: int = 0
    """How many times it was preempted."""
    bypassed: int = 0
    """How many times a later job started before it."""
    begin_at: int = 0
    """It does not start before this time."""
    after: tuple[str, ...] = ()
    """Jobs that must end first."""
    hold_reason: str = ""
    """Why a person holds it; "" if it is not held."""
    needs: tuple[str, ...] = ()
    """Labels that its nodes must have."""
    tolerates: tuple[str, ...] = ()
    """Taints that its nodes may have."""
    group: str = ""
    """What similar runs of one user have in common, such as the name without its numbers."""
    disk_mib: int = 0
    """0 if none is requested."""
    launcher: LauncherName = LauncherName.NONE
    array: int = 0
    """The number of its array; 0 if it belongs to none."""
    array_cap: int = 0
    """How many members of its array may run at once; 0 if all."""
    volume_access: tuple[str, ...] = ()
    """What its volumes need of a node, in the same words as NodeView.volume_access."""
    image_needs: ImageNeeds = NO_NEEDS
    """What is known of its image."""
    needs_rdma: bool = False
    """It runs only on nodes that offer RDMA."""
    git_host: str = ""
    """The host that has its code, in the same words as NodeView.git_hosts; empty without one."""
    missing_secret: str = ""
    """The name of a secret that it needs and that does not exist any more."""
    backend: CollectiveBackend = CollectiveBackend.AUTO
    command: CommandTraits = NO_TRAITS
    """What is recognised in its command."""
    only_nodes: tuple[str, ...] = field(default=(), metadata=omitted_by_default())
    """Names of the nodes that it measures: it runs on no other one. Empty for every other job."""
    egress: EgressPolicy = field(default=EgressPolicy.ALL, metadata=omitted_by_default())
    """Of its project."""
    sizes: tuple[int, ...] = field(default=(), metadata=omitted_by_default())
    """Numbers of replicas that it may start with, the least first; empty if `replicas` alone. Of a
    waiting job `replicas` is the least of them, of a running one how many it has."""
    is_releasing: bool = field(default=False, metadata=omitted_by_default())
    """Devices of its last attempt are about to be free. Known of jobs of several sizes alone."""

    @property
    def awaits_people(self) -> bool:
        """Whether it starts only after somebody has acted."""
        return bool(self.hold_reason or self.missing_secret)


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job with devices. Each device of `replicas` names its slice."""

    job: WaitingJob
    replicas: tuple[ReplicaPlacement, ...]
    started_at: int
    """When the devices were allocated."""
    stopping: bool = False
    """It is already giving its devices back."""
    has_saved: bool = field(default=False, metadata=omitted_by_default())
    """It has sent a checkpoint since it started. Known of jobs of several sizes alone."""

    @property
    def ends_at(self) -> int:
        """When its time limit ends it, at the latest."""
        return self.started_at + self.job.time_limit_seconds - self.job.attained_seconds


@dataclass(frozen=True, slots=True)
class Demand:
    """One kind of request in the recent mix, and how often it came."""

    device: DeviceRequest
    cpu_milli: int
    memory_mib: int
    count: int


@dataclass(frozen=True, slots=True)
class DemandMix:
    """The requests of the recent past."""

    demands: tuple[Demand, ...] = ()
    departures_per_start: float = 1.0
    """Jobs that ended per job that started: 0 while the cluster only fills, about 1 once steady."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run that has ended."""

    project: str
    user: str
    group: str
    gpus: int
    """0 for a slice or a share."""
    limit_seconds: int
    limit_is_chosen: bool
    ran_seconds: int
    completed: bool
    """It ended by itself; its limit, a cancel or a fault cut off the others."""
    ended_at: int
    queued_at: int = 0
    """0 if unknown."""


@dataclass(frozen=True, slots=True)
class NodePair:
    """Two nodes, by name, the lower name first."""

    first: str
    second: str


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Everything that a planning pass knows."""

    now: int
    nodes: tuple[NodeView, ...] = ()
    jobs: tuple[WaitingJob, ...] = ()
    quotas: tuple[QuotaView, ...] = ()
    running: tuple[RunningJob, ...] = ()
    budgets: tuple[BudgetView, ...] = ()
    owners: tuple[OwnerView, ...] = ()
    mix: DemandMix = DemandMix()
    history: tuple[PastRun, ...] = ()
    """Ordered by `ended_at`."""
    largest_networked_gang: int = MAX_GANG
    """How many replicas a gang that needs a network of its own may have: for more, no addresses are
    free."""
    slow_pairs: tuple[NodePair, ...] = field(default=(), metadata=omitted_by_default())
    """Nodes between which a collective was measured to be slow or wrong. A gang is on both of them
    only where it finds no other place."""
