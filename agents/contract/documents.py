"""What the portal wants on a node (desired) and what the node says is there (observed).

Both are whole documents, never deltas: a node that missed ten of them needs only the last. Amounts
are integers with their unit in the name; times are ISO 8601 in UTC and advisory when a node sent
them.
"""

import hashlib
import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from agents.contract.codec import decode, encode, omitted_by_default, rule
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.topology import NodeTopology

PROTOCOL = 1
OLDEST_PROTOCOL = 1

# Two PB: a folder may lie on a file system of many machines.
MAX_DISK_MIB = 2_000_000_000

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.:-]*"
Identifier = Annotated[str, rule(max_length=64, pattern=_NAME)]
GpuUuid = Annotated[str, rule(max_length=96, pattern=_NAME)]


class GpuMode(StrEnum):
    """How a GPU is divided. `mps` GPUs are in mode whole for the driver."""

    WHOLE = "whole"
    MIG = "mig"
    MPS = "mps"


class SliceKind(StrEnum):
    GPU = "gpu"
    MIG = "mig"
    MPS = "mps"


class DesiredReplicaState(StrEnum):
    """What the portal wants of a replica. A replica no longer wanted at all is simply absent."""

    PREPARE = "prepare"
    RUN = "run"
    STOP = "stop"


class ReplicaState(StrEnum):
    """What the node says of a replica."""

    PENDING = "pending"
    PREPARING = "preparing"
    READY = "ready"
    RUNNING = "running"
    EXITED = "exited"
    FAILED = "failed"
    LOST = "lost"


class CollectiveBackend(StrEnum):
    """Which library carries a gang's messages: the words of torch.distributed.

    `auto`: nccl where every rank has whole GPUs, else gloo (agents.contract.collectives)."""

    AUTO = "auto"
    NCCL = "nccl"
    GLOO = "gloo"


class RuntimeKind(StrEnum):
    DOCKER = "docker"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class DesiredGpu:
    """The mode a GPU should be in. A GPU that is not listed is left as it is."""

    uuid: GpuUuid
    mode: GpuMode = GpuMode.WHOLE


@dataclass(frozen=True, slots=True)
class DesiredSlice:
    """A MIG instance that should exist: `profile` over `size` memory slices from `start`."""

    id: Identifier
    gpu_uuid: GpuUuid
    profile: str = field(default="", metadata=rule(max_length=32))
    start: int = field(default=0, metadata=rule(minimum=0, maximum=63))
    size: int = field(default=1, metadata=rule(minimum=1, maximum=64))


@dataclass(frozen=True, slots=True)
class Device:
    """One device that a replica is given: a whole GPU, a MIG instance by place, or an MPS share.

    A share has `threads` (percent of the SMs) and `memory_mib` of the GPU, or of the MIG instance
    that `profile`, `start` and `size` name; both are 0 for the other kinds.
    """

    allocation: Identifier
    slice: Identifier
    kind: SliceKind = SliceKind.GPU
    gpu_uuid: str = field(default="", metadata=rule(max_length=96))
    profile: str = field(default="", metadata=rule(max_length=32))
    start: int = field(default=0, metadata=rule(minimum=0, maximum=63))
    size: int = field(default=1, metadata=rule(minimum=1, maximum=64))
    threads: int = field(default=0, metadata=rule(minimum=0, maximum=100))
    memory_mib: int = field(default=0, metadata=rule(minimum=0))


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where the ranks of a gang meet. Known only when every replica is ready."""

    address: str = field(metadata=rule(max_length=255))
    port: int = field(metadata=rule(minimum=1, maximum=65_535))
    peers: tuple[str, ...] = field(default=(), metadata=rule(max_length=4_096))


@dataclass(frozen=True, slots=True)
class DesiredReplica:
    """One container (or process) of one attempt at a job, and what should become of it.

    `fence` grows with every attempt; an agent refuses a lower one than it has seen for the job.
    `disk_mib`: what it may write, 0 where it asked for none; counted, not enforced by the runtime.
    """

    id: Identifier
    job: Identifier
    attempt: int = field(default=1, metadata=rule(minimum=1))
    rank: int = field(default=0, metadata=rule(minimum=0, maximum=4_095))
    world: int = field(default=1, metadata=rule(minimum=1, maximum=4_096))
    fence: int = field(default=1, metadata=rule(minimum=1))
    wish: DesiredReplicaState = DesiredReplicaState.PREPARE
    project: str = field(default="", metadata=rule(max_length=64))
    user: str = field(default="", metadata=rule(max_length=150))
    name: str = field(default="", metadata=rule(max_length=64))
    image: str = field(default="", metadata=rule(max_length=512))
    command: tuple[str, ...] = field(default=(), metadata=rule(max_length=1_024))
    launcher: str = field(default="none", metadata=rule(max_length=32))
    env: dict[str, str] = field(default_factory=dict)
    cpu_milli: int = field(default=1_000, metadata=rule(minimum=1))
    memory_mib: int = field(default=1_024, metadata=rule(minimum=4))
    shm_mib: int = field(default=64, metadata=rule(minimum=1))
    devices: tuple[Device, ...] = ()
    processes: int = field(default=1, metadata=rule(minimum=1, maximum=64))
    backend: CollectiveBackend = CollectiveBackend.AUTO
    grace_seconds: int = field(default=30, metadata=rule(minimum=0, maximum=3_600))
    time_limit_seconds: int = field(default=3_600, metadata=rule(minimum=1))
    rendezvous: Rendezvous | None = None
    disk_mib: int = field(default=0, metadata=omitted_by_default(minimum=0, maximum=MAX_DISK_MIB))


@dataclass(frozen=True, slots=True)
class DesiredDocument:
    """Everything the portal wants on one node. `revision` only grows, except after a restore."""

    node: Identifier
    revision: int = field(default=0, metadata=rule(minimum=0))
    gpus: tuple[DesiredGpu, ...] = ()
    slices: tuple[DesiredSlice, ...] = ()
    replicas: tuple[DesiredReplica, ...] = ()
    protocol: int = field(default=PROTOCOL, metadata=rule(minimum=1))
    allow_mass_removal: bool = False


@dataclass(frozen=True, slots=True)
class ObservedProfile:
    """A MIG profile as the driver tells it; an instance covers `size` memory slices from one of
    `starts`. The numbers are those of `agents.contract.boards.Profile`."""

    name: str = field(default="", metadata=rule(max_length=32))
    id: int = field(default=0, metadata=rule(minimum=0, maximum=1_023))
    query_index: int = field(default=0, metadata=rule(minimum=0, maximum=255))
    compute_slices: int = field(default=1, metadata=rule(minimum=1, maximum=64))
    size: int = field(default=1, metadata=rule(minimum=1, maximum=64))
    memory_mib: int = field(default=0, metadata=rule(minimum=0))
    multiprocessors: int = field(default=0, metadata=rule(minimum=0))
    max_instances: int = field(default=1, metadata=rule(minimum=1, maximum=64))
    starts: tuple[int, ...] = field(default=(), metadata=rule(max_length=64))


@dataclass(frozen=True, slots=True)
class ObservedGpu:
    """A GPU as the driver tells it. `board` is the table's key, or the driver's name if unknown;
    of an unknown one `profiles` are what the driver has told of it. `busy`: the process that is on
    the whole of it and belongs to no replica; while it is there the GPU is not given out."""

    uuid: GpuUuid
    index: int = field(default=0, metadata=rule(minimum=0, maximum=255))
    product_name: str = field(default="", metadata=rule(max_length=128))
    board: str = field(default="", metadata=rule(max_length=128))
    memory_mib: int = field(default=0, metadata=rule(minimum=0))
    mode: GpuMode = GpuMode.WHOLE
    mode_pending: GpuMode = GpuMode.WHOLE
    healthy: bool = True
    health_reason: str = field(default="", metadata=rule(max_length=512))
    pci_bus_id: str = field(default="", metadata=rule(max_length=32))
    numa_node: int | None = None
    profiles: tuple[ObservedProfile, ...] = field(default=(), metadata=rule(max_length=32))
    busy: str = field(default="", metadata=rule(max_length=128))


@dataclass(frozen=True, slots=True)
class ObservedSlice:
    """A MIG instance that exists now, with the UUID that its containers are given. `busy` as of a
    GPU."""

    gpu_uuid: GpuUuid
    profile: str = field(default="", metadata=rule(max_length=32))
    start: int = field(default=0, metadata=rule(minimum=0, maximum=63))
    size: int = field(default=1, metadata=rule(minimum=1, maximum=64))
    uuid: str = field(default="", metadata=rule(max_length=96))
    busy: str = field(default="", metadata=rule(max_length=128))


@dataclass(frozen=True, slots=True)
class SliceProblem:
    """A partition change that did not work yet, and why. The agent goes on trying."""

    gpu_uuid: GpuUuid
    slice: str = field(default="", metadata=rule(max_length=64))
    code: str = field(default="", metadata=rule(max_length=64))
    sentence: str = field(default="", metadata=rule(max_length=512))


@dataclass(frozen=True, slots=True)
class ObservedReplica:
    """A replica as the node sees it. Rank 0 offers the rendezvous `address` and `port`."""

    id: Identifier
    job: Identifier
    attempt: int = field(default=1, metadata=rule(minimum=1))
    rank: int = field(default=0, metadata=rule(minimum=0))
    fence: int = field(default=1, metadata=rule(minimum=1))
    state: ReplicaState = ReplicaState.PENDING
    container: str = field(default="", metadata=rule(max_length=128))
    address: str = field(default="", metadata=rule(max_length=255))
    port: int | None = field(default=None, metadata=rule(minimum=1, maximum=65_535))
    exit_code: int | None = None
    memory_kill: bool = False
    code: str = field(default="", metadata=rule(max_length=64))
    sentence: str = field(default="", metadata=rule(max_length=1_024))
    started_at: str = field(default="", metadata=rule(max_length=40))
    finished_at: str = field(default="", metadata=rule(max_length=40))
    log_bytes: int = field(default=0, metadata=rule(minimum=0))


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node is. `fabric` names the network that replicas share: gangs stay inside one.
    `problems`: what its preflight found; `blocks`: those for which it takes no new work.
    `share_clients`: how many processes the MPS server of one GPU takes; 0: it gives no shares.
    `disk_free_mib`: where the agent keeps its things. `disk_mib`: what jobs may have together of
    the disk that they write to; None: it does not say."""

    cpu_milli: int = field(default=0, metadata=rule(minimum=0))
    memory_mib: int = field(default=0, metadata=rule(minimum=0))
    disk_free_mib: int = field(default=0, metadata=rule(minimum=0))
    runtime: RuntimeKind = RuntimeKind.DOCKER
    runtime_version: str = field(default="", metadata=rule(max_length=64))
    fabric: str = field(default="", metadata=rule(max_length=128))
    driver_version: str = field(default="", metadata=rule(max_length=64))
    nvml_version: str = field(default="", metadata=rule(max_length=64))
    cuda_version: str = field(default="", metadata=rule(max_length=64))
    simulated: bool = False
    agent_version: str = field(default="", metadata=rule(max_length=64))
    share_clients: int = field(default=0, metadata=rule(minimum=0, maximum=1_024))
    problems: tuple[str, ...] = field(default=(), metadata=rule(max_length=64))
    blocks: tuple[str, ...] = field(default=(), metadata=rule(max_length=64))
    disk_mib: int | None = field(
        default=None, metadata=omitted_by_default(minimum=0, maximum=MAX_DISK_MIB)
    )


@dataclass(frozen=True, slots=True)
class ObservedDocument:
    """Everything the node sees. Sent whole whenever it changed."""

    node: Identifier
    boot_id: str = field(default="", metadata=rule(max_length=64))
    facts: NodeFacts = field(default_factory=NodeFacts)
    gpus: tuple[ObservedGpu, ...] = ()
    slices: tuple[ObservedSlice, ...] = ()
    replicas: tuple[ObservedReplica, ...] = ()
    problems: tuple[SliceProblem, ...] = ()
    topology: NodeTopology = field(default_factory=NodeTopology)
    protocol: int = field(default=PROTOCOL, metadata=rule(minimum=1))


def check_protocol(protocol: Any) -> None:
    """Refuse a document of a protocol that this side does not speak, before reading the rest."""
    if not isinstance(protocol, int) or isinstance(protocol, bool):
        raise ContractError(ContractErrorCode.INVALID_FIELD, "expected int", "protocol")
    if protocol > PROTOCOL:
        sentence = f"protocol {protocol} is newer than {PROTOCOL}: update this side first"
        raise ContractError(ContractErrorCode.PROTOCOL_TOO_NEW, sentence, "protocol")
    if protocol < OLDEST_PROTOCOL:
        sentence = f"protocol {protocol} is no longer spoken: update the other side"
        raise ContractError(ContractErrorCode.PROTOCOL_TOO_OLD, sentence, "protocol")


def read_desired(data: Any) -> DesiredDocument:
    """A desired document from JSON data. Raises ContractError; nothing is guessed."""
    if isinstance(data, dict):
        check_protocol(data.get("protocol"))
    return decode(DesiredDocument, data)


def read_observed(data: Any) -> ObservedDocument:
    """An observed document from JSON data. Raises ContractError."""
    if isinstance(data, dict):
        check_protocol(data.get("protocol"))
    return decode(ObservedDocument, data)


def digest(document: DesiredDocument | ObservedDocument | DesiredReplica) -> str:
    """SHA-256 of the canonical JSON, in hex: equal documents have equal digests."""
    text = json.dumps(encode(document), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
