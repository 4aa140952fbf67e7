"""A job request as values, and what can be wrong with it."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from agents.contract.documents import CollectiveBackend
from agents.contract.git_source import GitSource, is_git_source, read_git_source
from agents.contract.launcher_names import LauncherName
from agents.contract.message import Message
from agents.contract.profilers import Profiler
from agents.contract.rank_network import RdmaUse
from scheduler.core.model.snapshot import DeviceRequest, Priority, Topology


class JobKind(StrEnum):
    BATCH = "batch"
    NOTEBOOK = "notebook"
    SERVICE = "service"


class ContainerSharing(StrEnum):
    """Whether replicas on one node run as one, where they can."""

    PER_NODE = "per-node"
    PER_REPLICA = "per-replica"


class GangPreflight(StrEnum):
    """With what the network between the nodes of a gang is checked before it starts."""

    NONE = "none"
    ALL_REDUCE = "all-reduce"


class ProblemCode(StrEnum):
    """What can be wrong with a field."""

    MISSING = "missing"
    UNKNOWN = "unknown_field"
    TYPE = "wrong_type"
    VALUE = "invalid_value"
    RANGE = "out_of_range"
    UNSUPPORTED = "unsupported"
    RESERVED = "reserved_name"
    FORBIDDEN = "not_allowed"
    COMBINATION = "invalid_combination"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One problem: the field's dotted path, a code, and a message that says what to write."""

    field: str
    code: ProblemCode
    message: Message
    suggestion: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Changed fields that mend the request; empty if none do."""
    combination: str = ""
    """The code of the row of agents/combinations/ that refuses it; empty for any other problem."""

    @property
    def sentence(self) -> str:
        """The message in English."""
        return self.message.text


@dataclass(frozen=True, slots=True)
class FieldWarning:
    """A probable failure, or a probable loss of speed."""

    field: str
    """Its dotted path."""
    message: Message
    combination: str = ""
    """The code of the row of agents/combinations/ that warns; empty for any other warning."""

    @property
    def sentence(self) -> str:
        """The message in English."""
        return self.message.text


class Refuse(Protocol):
    """How the readers of fields report a problem: field, code, what to write instead, changed
    fields that mend the request, and the code of a combination."""

    def __call__(
        self,
        field: str,
        code: ProblemCode,
        why: Message | str,
        suggestion: Mapping[str, Any] | None = None,
        combination: str = "",
    ) -> None: ...


@dataclass
class InvalidRequest(Exception):
    """All problems of a request, in the order of its fields."""

    errors: tuple[FieldError, ...]

    def __str__(self) -> str:
        return "; ".join(f"{e.field}: {e.sentence}" for e in self.errors)


@dataclass(frozen=True, slots=True)
class HostShare:
    """Defaults of CPU and memory for a replica."""

    cpu_milli: int = 1_000
    memory_mib: int = 4_096


class HostShares(Protocol):
    """The device's share of its node, among the nodes that labels and taints allow."""

    def __call__(
        self, device: DeviceRequest, *, needs: tuple[str, ...], tolerates: tuple[str, ...]
    ) -> HostShare: ...


def fixed_host_share(
    device: DeviceRequest, *, needs: tuple[str, ...] = (), tolerates: tuple[str, ...] = ()
) -> HostShare:
    """The same for every device: where no cluster is known."""
    return HostShare()


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits and defaults of requests on this installation."""

    default_time_limit_seconds: int = 4 * 3_600
    max_time_limit_seconds: int = 7 * 86_400
    max_replicas: int = 64
    image_allow: tuple[str, ...] = ("*",)
    """Patterns of image names (agents.contract.image_reference)."""
    hung_stop_seconds: int = 0
    """Gangs without progress for so long are stopped; 0 if none is."""
    can_preflight: bool = True
    """It has an image with which networks of gangs are checked."""
    host_share: HostShares = field(default=fixed_host_share, compare=False)


@dataclass(frozen=True, slots=True)
class VolumeRequest:
    """A volume of the project, and where it is in the containers."""

    volume: str
    """Its name."""
    path: str
    read_only: bool = False
    """Else as far as the volume allows."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A checked request. CPU, memory and disk are per replica."""

    project: str
    name: str
    image: str
    command: tuple[str, ...]
    device: DeviceRequest
    time_limit_seconds: int
    kind: JobKind = JobKind.BATCH
    launcher: LauncherName = LauncherName.NONE
    replicas: int = 1
    """The least number that it may start with."""
    max_replicas: int = 0
    """The greatest one; 0 if it has exactly `replicas`."""
    processes: int = 1
    cpu_milli: int = 1_000
    memory_mib: int = 4_096
    shm_mib: int = 2_048
    priority: Priority = Priority.NORMAL
    topology: Topology = Topology.BEST
    backend: CollectiveBackend = CollectiveBackend.AUTO
    rdma: RdmaUse = RdmaUse.AUTO
    containers: ContainerSharing = ContainerSharing.PER_NODE
    preflight: GangPreflight = GangPreflight.NONE
    infrastructure_retries: int = 3
    user_retries: int = 0
    grace_seconds: int = 30
    env: Mapping[str, str] = field(default_factory=dict)
    preemptible: bool = False
    """It may be stopped and queued again for other jobs."""
    idle_stop: bool = True
    """Its project's idle policy may stop it."""
    progress_limit: str = ""
    """How long it may be without progress, as `progress_limits` writes it; empty without a limit of
    its own."""
    begin_at: int = 0
    """It does not start before this time, in seconds since the epoch."""
    begin_in: int = 0
    """It does not start before this many seconds after the submit. At most one of these is set."""
    after: tuple[str, ...] = ()
    """Labels of jobs of the project that must succeed first."""
    notify: tuple[str, ...] = ()
    """Who is told of it in any case: "email" its owner, "webhook:NAME" an endpoint."""
    needs: tuple[str, ...] = ()
    """Labels that its nodes must have."""
    tolerates: tuple[str, ...] = ()
    """Taints that its nodes may have."""
    disk_mib: int = 0
    """0 if none is requested."""
    code: str = ""
    """The id of a code tree of the project, or a git source as `agents.contract.git_source` writes
    it; empty without one."""
    secrets: tuple[str, ...] = ()
    """Names of secrets; of those that become variables, with ":env"."""
    volumes: tuple[VolumeRequest, ...] = ()
    apps: tuple[str, ...] = ()
    """Names and ports of rank 0 that the portal serves: "web:8080"."""
    profiler: Profiler = Profiler.NONE
    array: str = ""
    """Indices of members and how many may run at once: "0-99%10". Empty for one job."""
    sweep: tuple[str, ...] = ()
    """Parameters with their values, "lr=1e-3,1e-4": their product makes the members."""
    limit_is_chosen: bool = field(default=True, compare=False)
    """Whether the request set the time limit. It tells how the request was read, so it does not
    take part in comparisons."""

    @property
    def most_replicas(self) -> int:
        """How many replicas it may have at once."""
        return max(self.replicas, self.max_replicas)

    @property
    def code_tree(self) -> str:
        """The id of its code tree; empty without one."""
        return "" if is_git_source(self.code) else self.code

    @property
    def git_source(self) -> GitSource | None:
        """Of which repository its code is."""
        return read_git_source(self.code) if is_git_source(self.code) else None
