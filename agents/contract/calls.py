"""The calls an agent makes: enrol once, hello at each start, then sync for ever, and append logs.

Paths are relative to the portal's address. Every body is JSON except log bytes. Enrol and hello
need no token; all later calls carry `Authorization: Agent <token>` and the epoch.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from agents.contract.codec import rule
from agents.contract.documents import PROTOCOL, DesiredDocument, ObservedDocument

ENROL_PATH = "/agent/v1/enrol"
HELLO_PATH = "/agent/v1/hello"
SYNC_PATH = "/agent/v1/sync"
LOG_PATH = "/agent/v1/replicas/{replica}/log"  # PUT ?offset=N, body = raw bytes
TELEMETRY_PATH = "/agent/v1/telemetry"  # body: contract.telemetry
EPOCH_HEADER = "X-Tessera-Epoch"

MAX_BODY_BYTES = 1 << 20
MAX_LONG_POLL_SECONDS = 25
MAX_LOG_CHUNK_BYTES = 256 * 1024
MAX_CLOCK_SKEW_SECONDS = 300


class EventType(StrEnum):
    """Moments worth keeping in order, beside the observed state that only knows the present."""

    AGENT_STARTED = "agent.started"
    SLICE_CREATED = "slice.created"
    SLICE_DELETED = "slice.deleted"
    SLICE_FAILED = "slice.failed"
    MODE_CHANGED = "gpu.mode_changed"
    GPU_QUARANTINED = "gpu.quarantined"
    GPU_RELEASED = "gpu.released"
    GPU_UNMANAGED = "gpu.unmanaged"
    GPU_RESET = "gpu.reset"
    REPLICA_PREPARING = "replica.preparing"
    REPLICA_ADOPTED = "replica.adopted"
    REPLICA_REFUSED = "replica.refused"
    DOCUMENT_REFUSED = "agent.holding"
    SHARE_AT_RISK = "share.at_risk"


@dataclass(frozen=True, slots=True)
class EnrolRequest:
    """`public_key`: the agent's raw Ed25519 public key, base64."""

    node: str = field(metadata=rule(max_length=64, pattern=r"[a-z0-9][a-z0-9.-]*"))
    join_token: str = field(metadata=rule(max_length=128))
    public_key: str = field(metadata=rule(max_length=64))
    machine_id: str = field(default="", metadata=rule(max_length=64))
    protocol: int = field(default=PROTOCOL, metadata=rule(minimum=1))


@dataclass(frozen=True, slots=True)
class EnrolResponse:
    node_id: str


@dataclass(frozen=True, slots=True)
class HelloRequest:
    """`signature`: Ed25519 over `hello_bytes`, base64. `time_ms`: Unix time of the agent, in ms."""

    node_id: str = field(metadata=rule(max_length=64))
    boot_id: str = field(metadata=rule(max_length=64))
    time_ms: int = field(metadata=rule(minimum=0))
    nonce: str = field(metadata=rule(max_length=64))
    signature: str = field(metadata=rule(max_length=128))
    protocol: int = field(default=PROTOCOL, metadata=rule(minimum=1))


@dataclass(frozen=True, slots=True)
class HelloResponse:
    """A fresh epoch: calls with an older one are refused from now on."""

    epoch: int
    access_token: str
    token_seconds: int
    lease_seconds: int
    acked_seq: int
    server_time: str


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """`seq` grows by one per node for ever (the journal keeps it); a repeated one is dropped."""

    seq: int = field(metadata=rule(minimum=1))
    type: EventType
    at: str = field(metadata=rule(max_length=40))
    replica: str = field(default="", metadata=rule(max_length=64))
    fence: int = field(default=0, metadata=rule(minimum=0))
    sentence: str = field(default="", metadata=rule(max_length=1_024))
    data: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """`observed` is sent whole when it changed or the portal asked; else only its hash."""

    epoch: int = field(metadata=rule(minimum=1))
    applied_revision: int = field(metadata=rule(minimum=0))
    observed_hash: str = field(metadata=rule(max_length=64))
    observed: ObservedDocument | None = None
    events: tuple[AgentEvent, ...] = field(default=(), metadata=rule(max_length=500))
    hold_seconds: int = field(default=MAX_LONG_POLL_SECONDS, metadata=rule(minimum=0, maximum=60))
    protocol: int = field(default=PROTOCOL, metadata=rule(minimum=1))


@dataclass(frozen=True, slots=True)
class SyncResponse:
    """`desired` is None when the agent's applied revision is current."""

    epoch: int
    acked_seq: int
    lease_seconds: int
    revision: int
    full_required: bool
    server_time: str
    desired: DesiredDocument | None = None


@dataclass(frozen=True, slots=True)
class LogResponse:
    """The offset that the next chunk starts at."""

    next_offset: int


def hello_bytes(node_id: str, boot_id: str, time_ms: int, nonce: str, protocol: int) -> bytes:
    """What a hello's signature covers."""
    return "\n".join(
        ("tessera-hello", node_id, boot_id, str(time_ms), nonce, str(protocol))
    ).encode()
