"""The desired document (what the portal wants of a node) and the observed one (what is there).

Both are complete, never deltas: a node that missed ten of them needs only the last. Amounts are
integers with their unit in the name. Times are ISO 8601 in UTC; those of a node are advisory.
"""

import hashlib
import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from agents.contract.caches import MAX_CACHES, OfferedCache
from agents.contract.codec import decode, encode, omitted_by_default, rule
from agents.contract.egress import EgressPolicy
from agents.contract.gang_network import MAX_ADDRESS, GangNetwork, NodeOverlay
from agents.contract.git_source import MAX_GIT_HOSTS, DesiredGitCode, GitCommit, GitHost
from agents.contract.image_digest import MAX_DIGEST_LENGTH
from agents.contract.image_needs import ImageNeeds
from agents.contract.job_secrets import MAX_REPLICA_SECRETS, DesiredSecret
from agents.contract.launcher_names import FIRST_LAUNCHERS, LauncherName
from agents.contract.lease import DEFAULT as DEFAULT_LEASE_END
from agents.contract.node_limits import (
    MAX_DEVICES,
    MAX_GPUS,
    MAX_PROBLEMS,
    MAX_REPLICAS,
    MAX_SLICES,
)
from agents.contract.notebooks import NotebookActivity
from agents.contract.profilers import Profiler
from agents.contract.protocol import PROTOCOL, check_protocol
from agents.contract.pulls import ObservedPull
from agents.contract.rank_network import RankNetwork
from agents.contract.replica_limits import MAX_DISK_MIB, MAX_PROCESSES
from agents.contract.topology import NodeTopology
from agents.contract.volumes import MAX_ROOTS, MAX_VOLUMES, DesiredVolume, OfferedRoot
from agents.contract.wire_messages import WireMessage

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.:-]*"
Identifier = Annotated[str, rule(max_length=64, pattern=_NAME)]
GpuUuid = Annotated[str, rule(max_length=96, pattern=_NAME)]


class GpuMode(StrEnum):
    """How a GPU is divided. For the driver, an `mps` GPU is a whole one."""

    WHOLE = "whole"
    MIG = "mig"
    MPS = "mps"


class SliceKind(StrEnum):
    GPU = "gpu"
    MIG = "mig"
    MPS = "mps"


class DesiredReplicaState(StrEnum):
    """What the portal wants of a replica. One that it no longer wants is absent."""

    PREPARE = "prepare"
    RUN = "run"
    STOP = "stop"


class ReplicaState(StrEnum):
    """What the node reports of a replica."""

    PENDING = "pending"
    PREPARING = "preparing"
    READY = "ready"
    RUNNING = "running"
    EXITED = "exited"
    FAILED = "failed"
    LOST = "lost"


class CollectiveBackend(StrEnum):
    """The collective library of a gang, by torch.distributed's names.

    `auto`: nccl if every rank has whole GPUs, else gloo (see `agents.contract.collectives`)."""

    AUTO = "auto"
    NCCL = "nccl"
    GLOO = "gloo"


class RuntimeKind(StrEnum):
    DOCKER = "docker"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class DesiredGpu:
    """The mode that a GPU should have. A GPU that is not listed stays as it is."""

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
    """One device of a replica: a whole GPU, a MIG instance by its place, or an MPS share.

    A share is a part of the GPU, or of the MIG instance that `profile`, `start` and `size` name.
    """

    allocation: Identifier
    slice: Identifier
    kind: SliceKind = SliceKind.GPU
    gpu_uuid: str = field(default="", metadata=rule(max_length=96))
    profile: str = field(default="", metadata=rule(max_length=32))
    start: int = field(default=0, metadata=rule(minimum=0, maximum=63))
    size: int = field(default=1, metadata=rule(minimum=1, maximum=64))
    # Percent of the SMs, and memory, of a share; 0 for the other kinds.
    threads: int = field(default=0, metadata=rule(minimum=0, maximum=100))
    memory_mib: int = field(default=0, metadata=rule(minimum=0))


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where the ranks of a gang meet. Known once every replica is ready."""

    address: str = field(metadata=rule(max_length=255))
    port: int = field(metadata=rule(minimum=1, maximum=65_535))
    peers: tuple[str, ...] = field(default=(), metadata=rule(max_length=4_096))


@dataclass(frozen=True, slots=True)
class DesiredReplica:
    """One container (or process) of one attempt at a job, and what should become of it."""

    id: Identifier
    job: Identifier
    attempt: int = field(default=1, metadata=rule(minimum=1))
    rank: int = field(default=0, metadata=rule(minimum=0, maximum=4_095))
    # The number of replicas in the gang.
    world: int = field(default=1, metadata=rule(minimum=1, maximum=4_096))
    # Grows with every attempt; an agent refuses one that is lower than the job's highest so far.
    fence: int = field(default=1, metadata=rule(minimum=1))
    wish: DesiredReplicaState = DesiredReplicaState.PREPARE
    project: str = field(default="", metadata=rule(max_length=64))
    user: str = field(default="", metadata=rule(max_length=150))
    name: str = field(default="", metadata=rule(max_length=64))
    image: str = field(default="", metadata=rule(max_length=512))
    command: tuple[str, ...] = field(default=(), metadata=rule(max_length=1_024))
    launcher: LauncherName = LauncherName.NONE
    env: dict[str, str] = field(default_factory=dict)
    cpu_milli: int = field(default=1_000, metadata=rule(minimum=1))
    memory_mib: int = field(default=1_024, metadata=rule(minimum=4))
    shm_mib: int = field(default=64, metadata=rule(minimum=1))
    devices: tuple[Device, ...] = field(default=(), metadata=rule(max_length=MAX_DEVICES))
    # Processes that the launcher starts in this replica.
    processes: int = field(default=1, metadata=rule(minimum=1, maximum=MAX_PROCESSES))
    backend: CollectiveBackend = CollectiveBackend.AUTO
    grace_seconds: int = field(default=30, metadata=rule(minimum=0, maximum=3_600))
    time_limit_seconds: int = field(default=3_600, metadata=rule(minimum=1))
    rendezvous: Rendezvous | None = None
    # What it may write, 0 if it requested none; then the node's policy has a limit.
    disk_mib: int = field(default=0, metadata=omitted_by_default(minimum=0, maximum=MAX_DISK_MIB))
    # The tree of its code folder; empty if it has none.
    code_tree: str = field(default="", metadata=omitted_by_default(max_length=64))
    # Its code folder is a commit instead, which the node fetches.
    code_git: DesiredGitCode | None = field(default=None, metadata=omitted_by_default())
    # It may have saved a checkpoint before: it starts with the tree `checkpoint`, if there is one.
    has_checkpoint: bool = field(default=False, metadata=omitted_by_default())
    # Their values are asked for in a call of their own.
    secrets: tuple[DesiredSecret, ...] = field(
        default=(), metadata=omitted_by_default(max_length=MAX_REPLICA_SECRETS)
    )
    volumes: tuple[DesiredVolume, ...] = field(
        default=(), metadata=omitted_by_default(max_length=MAX_VOLUMES)
    )
    # Which bytes its image has to be (`image_digest.py`): those that the other ranks or an earlier
    # attempt have. Empty if whatever the node takes for its name will do.
    image_digest: str = field(default="", metadata=omitted_by_default(max_length=MAX_DIGEST_LENGTH))
    # Of a gang over several nodes with an overlay.
    gang_network: GangNetwork | None = field(default=None, metadata=omitted_by_default())
    # Its ranks reach those of other nodes by RDMA, as all nodes of the gang offer it.
    rdma: bool = field(default=False, metadata=omitted_by_default())
    egress: EgressPolicy = field(default=EgressPolicy.ALL, metadata=omitted_by_default())
    profiler: Profiler = field(default=Profiler.NONE, metadata=omitted_by_default())
    # What the agent could not read of it (`newer_documents`); the portal never sends it.
    unreadable: str = field(default="", metadata=omitted_by_default(max_length=512))


@dataclass(frozen=True, slots=True)
class DesiredDocument:
    """Everything the portal wants of one node."""

    node: Identifier
    # Only grows, except after the portal's database was restored.
    revision: int = field(default=0, metadata=rule(minimum=0))
    gpus: tuple[DesiredGpu, ...] = field(default=(), metadata=rule(max_length=MAX_GPUS))
    slices: tuple[DesiredSlice, ...] = field(default=(), metadata=rule(max_length=MAX_SLICES))
    replicas: tuple[DesiredReplica, ...] = field(default=(), metadata=rule(max_length=MAX_REPLICAS))
    protocol: int = field(default=PROTOCOL, metadata=rule(minimum=1))
    # An admin has confirmed that this document may end most of what runs on the node.
    allow_mass_removal: bool = False
    # As `DesiredReplica.unreadable`, for GPUs and for the document.
    unreadable: tuple[str, ...] = field(default=(), metadata=omitted_by_default())


@dataclass(frozen=True, slots=True)
class ObservedProfile:
    """A MIG profile as the driver reports it; an instance covers `size` memory slices from one of
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
    """A GPU as the driver reports it."""

    uuid: GpuUuid
    index: int = field(default=0, metadata=rule(minimum=0, maximum=255))
    product_name: str = field(default="", metadata=rule(max_length=128))
    # The board's key in the table, or the driver's product name if the table lacks it.
    board: str = field(default="", metadata=rule(max_length=128))
    memory_mib: int = field(default=0, metadata=rule(minimum=0))
    mode: GpuMode = GpuMode.WHOLE
    mode_pending: GpuMode = GpuMode.WHOLE
    healthy: bool = True
    health_reason: str = field(default="", metadata=rule(max_length=512))
    pci_bus_id: str = field(default="", metadata=rule(max_length=32))
    numa_node: int | None = None
    # Of a board that the table lacks, the profiles that the driver reports.
    profiles: tuple[ObservedProfile, ...] = field(default=(), metadata=rule(max_length=32))
    # The foreign process on the GPU, which keeps it from new work; empty if there is none.
    busy: str = field(default="", metadata=rule(max_length=128))


@dataclass(frozen=True, slots=True)
class ObservedSlice:
    """A MIG instance that exists now, with the UUID that its containers get."""

    gpu_uuid: GpuUuid
    profile: str = field(default="", metadata=rule(max_length=32))
    start: int = field(default=0, metadata=rule(minimum=0, maximum=63))
    size: int = field(default=1, metadata=rule(minimum=1, maximum=64))
    uuid: str = field(default="", metadata=rule(max_length=96))
    # As `ObservedGpu.busy`.
    busy: str = field(default="", metadata=rule(max_length=128))


@dataclass(frozen=True, slots=True)
class SliceProblem:
    """A partition change that failed so far, and why. The agent keeps trying."""

    gpu_uuid: GpuUuid
    slice: str = field(default="", metadata=rule(max_length=64))
    code: str = field(default="", metadata=rule(max_length=64))
    sentence: str = field(default="", metadata=rule(max_length=512))


@dataclass(frozen=True, slots=True)
class ObservedReplica:
    """A replica on the node. Rank 0's `address` and `port` become the gang's rendezvous."""

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
    # What `sentence` was made of, for other languages.
    message: WireMessage | None = field(default=None, metadata=omitted_by_default())
    started_at: str = field(default="", metadata=rule(max_length=40))
    finished_at: str = field(default="", metadata=rule(max_length=40))
    log_bytes: int = field(default=0, metadata=rule(minimum=0))
    # While its image is being pulled.
    pull: ObservedPull | None = field(default=None, metadata=omitted_by_default())
    image_needs: ImageNeeds | None = field(default=None, metadata=omitted_by_default())
    # Which bytes its image is (`image_digest.py`), once it has a container.
    image_digest: str = field(default="", metadata=omitted_by_default(max_length=MAX_DIGEST_LENGTH))
    # The commit that its code folder has, once it was fetched.
    code_commit: GitCommit = field(default="", metadata=omitted_by_default())
    notebook: NotebookActivity | None = field(default=None, metadata=omitted_by_default())


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node's resources, versions and condition."""

    cpu_milli: int = field(default=0, metadata=rule(minimum=0))
    memory_mib: int = field(default=0, metadata=rule(minimum=0))
    # Free space in the agent's own folder.
    disk_free_mib: int = field(default=0, metadata=rule(minimum=0))
    runtime: RuntimeKind = RuntimeKind.DOCKER
    runtime_version: str = field(default="", metadata=rule(max_length=64))
    # Names the network that the node's replicas share: a gang stays inside one.
    fabric: str = field(default="", metadata=rule(max_length=128))
    driver_version: str = field(default="", metadata=rule(max_length=64))
    nvml_version: str = field(default="", metadata=rule(max_length=64))
    cuda_version: str = field(default="", metadata=rule(max_length=64))
    simulated: bool = False
    agent_version: str = field(default="", metadata=rule(max_length=64))
    # Processes that the MPS server of one GPU takes; 0 if the node offers no shares.
    share_clients: int = field(default=0, metadata=rule(minimum=0, maximum=1_024))
    # Sentences about the node, and those of them that keep it from new work.
    problems: tuple[str, ...] = field(default=(), metadata=rule(max_length=64))
    blocks: tuple[str, ...] = field(default=(), metadata=rule(max_length=64))
    # Names of its launchers; a newer agent may have some that this side does not know.
    launchers: tuple[Identifier, ...] = field(
        default=FIRST_LAUNCHERS, metadata=omitted_by_default(max_length=64)
    )
    # Disk that jobs may use together; None if the node does not report it.
    disk_mib: int | None = field(
        default=None, metadata=omitted_by_default(minimum=0, maximum=MAX_DISK_MIB)
    )
    # A `LeaseEnd`, or the word of a newer agent.
    on_lease_end: str = field(
        default=str(DEFAULT_LEASE_END), metadata=omitted_by_default(max_length=16)
    )
    # Reports the digest of its replicas' images, and runs the one that it is given.
    pins_images: bool = field(default=False, metadata=omitted_by_default())
    # Of its processors, in Docker's words: "amd64", "arm64".
    architecture: str = field(default="", metadata=omitted_by_default(max_length=32))
    # The roots of volumes, and the shared caches, that can be used now.
    volume_roots: tuple[OfferedRoot, ...] = field(
        default=(), metadata=omitted_by_default(max_length=MAX_ROOTS)
    )
    caches: tuple[OfferedCache, ...] = field(
        default=(), metadata=omitted_by_default(max_length=MAX_CACHES)
    )
    git_hosts: tuple[GitHost, ...] = field(
        default=(), metadata=omitted_by_default(max_length=MAX_GIT_HOSTS)
    )
    # Its IP address for other nodes; empty if the node does not report it.
    address: str = field(default="", metadata=omitted_by_default(max_length=MAX_ADDRESS))
    # None if the gangs on it stay on its engine.
    overlay: NodeOverlay | None = field(default=None, metadata=omitted_by_default())
    limits_egress: bool = field(default=False, metadata=omitted_by_default())
    has_profiler: bool = field(default=False, metadata=omitted_by_default())
    rank_network: RankNetwork | None = field(default=None, metadata=omitted_by_default())


@dataclass(frozen=True, slots=True)
class ObservedDocument:
    """Everything that is on the node. Sent in full whenever it changed."""

    node: Identifier
    boot_id: str = field(default="", metadata=rule(max_length=64))
    facts: NodeFacts = field(default_factory=NodeFacts)
    gpus: tuple[ObservedGpu, ...] = field(default=(), metadata=rule(max_length=MAX_GPUS))
    slices: tuple[ObservedSlice, ...] = field(default=(), metadata=rule(max_length=MAX_SLICES))
    replicas: tuple[ObservedReplica, ...] = field(
        default=(), metadata=rule(max_length=MAX_REPLICAS)
    )
    problems: tuple[SliceProblem, ...] = field(default=(), metadata=rule(max_length=MAX_PROBLEMS))
    topology: NodeTopology = field(default_factory=NodeTopology)
    protocol: int = field(default=PROTOCOL, metadata=rule(minimum=1))


def read_desired(data: Any) -> DesiredDocument:
    """A desired document from JSON data. Raises ContractError."""
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
