"""A job request as values: what may be asked, and what can be wrong with it. No reading here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agents.contract.documents import CollectiveBackend
from scheduler.core.model.snapshot import DeviceRequest, Priority, Topology


class Kind(StrEnum):
    BATCH = "batch"
    NOTEBOOK = "notebook"
    SERVICE = "service"


class Launcher(StrEnum):
    """How the command is started. Those that only wrap another program come with templates."""

    NONE = "none"
    TORCHRUN = "torchrun"


class Problem(StrEnum):
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
    """One problem: the field's dotted path, a code, and a sentence that says what to write."""

    field: str
    code: Problem
    sentence: str


@dataclass
class RequestRefused(Exception):
    """Everything that is wrong with a request, in the order of its fields."""

    errors: tuple[FieldError, ...]

    def __str__(self) -> str:
        return "; ".join(f"{e.field}: {e.sentence}" for e in self.errors)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What requests may ask for here. `image_allow`: fnmatch patterns of image names."""

    default_time_limit_seconds: int = 4 * 3_600
    max_time_limit_seconds: int = 7 * 86_400
    max_replicas: int = 64
    image_allow: tuple[str, ...] = ("*",)


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A checked request. CPU in millicores, memory and disk in MiB are per replica, a disk of 0 is
    none asked for; times in seconds.

    `begin_at`: not before this time (seconds since the epoch); `begin_in`: not before so many
    seconds after it was asked for; at most one is set. `after`: labels of jobs of the project that
    must succeed first. `preemptible`: it may be stopped and queued again for others. `needs`:
    labels that a node must have; `tolerates`: taints that it may have. `limit_is_chosen`: whether
    the time limit was written down; how it was read, not a part of the request.
    """

    project: str
    name: str
    image: str
    command: tuple[str, ...]
    device: DeviceRequest
    time_limit_seconds: int
    kind: Kind = Kind.BATCH
    launcher: Launcher = Launcher.NONE
    replicas: int = 1
    processes: int = 1
    cpu_milli: int = 1_000
    memory_mib: int = 4_096
    shm_mib: int = 1_024
    priority: Priority = Priority.NORMAL
    topology: Topology = Topology.BEST
    backend: CollectiveBackend = CollectiveBackend.AUTO
    infrastructure_retries: int = 3
    user_retries: int = 0
    grace_seconds: int = 30
    env: Mapping[str, str] = field(default_factory=dict)
    preemptible: bool = False
    begin_at: int = 0
    begin_in: int = 0
    after: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    tolerates: tuple[str, ...] = ()
    disk_mib: int = 0
    limit_is_chosen: bool = field(default=True, compare=False)
