"""The calls of an agent: enrol once, hello at each start, then sync repeatedly and append logs.

Paths are relative to the portal's address. Bodies are JSON, except for log bytes. Enrol and hello
need no token; every later call carries `Authorization: Agent <token>` and the epoch.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from agents.contract.codec import omitted_by_default, rule
from agents.contract.documents import DesiredDocument, ObservedDocument
from agents.contract.node_limits import MAX_EVENT_DATA, MAX_EVENTS, MAX_REPLICAS
from agents.contract.protocol import PROTOCOL

ENROL_PATH = "/agent/v1/enrol"
HELLO_PATH = "/agent/v1/hello"
SYNC_PATH = "/agent/v1/sync"
LOG_PATH = "/agent/v1/replicas/{replica}/log"  # PUT ?offset=N, body = raw bytes
LOGS_PATH = "/agent/v1/logs"  # POST, body: contract.log_batch
TELEMETRY_PATH = "/agent/v1/telemetry"  # body: contract.telemetry
EPOCH_HEADER = "X-Tessera-Epoch"

# Of a report: room for 2,000 replicas of 500 bytes each.
MAX_BODY_BYTES = 1 << 20
# Of enrol and hello, whose fields together have at most 500 characters.
MAX_GREETING_BYTES = 8 << 10
MAX_LONG_POLL_SECONDS = 25
MAX_LOG_CHUNK_BYTES = 256 * 1024
MAX_CLOCK_SKEW_SECONDS = 300


class EventType(StrEnum):
    """What happened on a node, in order; the observed document only shows the present state."""

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
    """The one call that a join token pays for: it registers the agent's key."""

    node: str = field(metadata=rule(max_length=64, pattern=r"[a-z0-9][a-z0-9.-]*"))
    join_token: str = field(metadata=rule(max_length=128))
    # The raw Ed25519 public key, base64.
    public_key: str = field(metadata=rule(max_length=64))
    machine_id: str = field(default="", metadata=rule(max_length=64))
    protocol: int = field(default=PROTOCOL, metadata=rule(minimum=1))


@dataclass(frozen=True, slots=True)
class EnrolResponse:
    node_id: str


@dataclass(frozen=True, slots=True)
class HelloRequest:
    """A signed request for an epoch and an access token."""

    node_id: str = field(metadata=rule(max_length=64))
    boot_id: str = field(metadata=rule(max_length=64))
    # Unix time of the agent, in milliseconds.
    time_ms: int = field(metadata=rule(minimum=0))
    nonce: str = field(metadata=rule(max_length=64))
    # Ed25519 over `hello_bytes`, base64.
    signature: str = field(metadata=rule(max_length=128))
    protocol: int = field(default=PROTOCOL, metadata=rule(minimum=1))


@dataclass(frozen=True, slots=True)
class HelloResponse:
    """A new epoch: calls that carry an older one are refused from now on."""

    epoch: int
    access_token: str
    token_seconds: int
    lease_seconds: int
    acked_seq: int
    server_time: str
    # Large contents may go to the store itself, and come from there.
    direct_transfer: bool = field(default=False, metadata=omitted_by_default())


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """One event of the agent's journal."""

    # Grows by one per node and never restarts; the portal drops a number that it already has.
    seq: int = field(metadata=rule(minimum=1))
    type: EventType
    at: str = field(metadata=rule(max_length=40))
    replica: str = field(default="", metadata=rule(max_length=64))
    fence: int = field(default=0, metadata=rule(minimum=0))
    sentence: str = field(default="", metadata=rule(max_length=1_024))
    data: dict[str, str] = field(default_factory=dict, metadata=rule(max_length=MAX_EVENT_DATA))


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """The node's state and events. The portal may keep the call open until it has news."""

    epoch: int = field(metadata=rule(minimum=1))
    applied_revision: int = field(metadata=rule(minimum=0))
    observed_hash: str = field(metadata=rule(max_length=64))
    # The full document if it changed or the portal asked for it, else None.
    observed: ObservedDocument | None = None
    events: tuple[AgentEvent, ...] = field(default=(), metadata=rule(max_length=MAX_EVENTS))
    # The longest time that the portal may keep the call open (long poll).
    hold_seconds: int = field(default=MAX_LONG_POLL_SECONDS, metadata=rule(minimum=0, maximum=60))
    protocol: int = field(default=PROTOCOL, metadata=rule(minimum=1))


@dataclass(frozen=True, slots=True)
class ReplicaOrigin:
    """Where a replica comes from, for lines of the agent's log; nothing else depends on it."""

    replica: str = field(metadata=rule(max_length=64))
    # As people call the job, such as J-12.
    job: str = field(metadata=rule(max_length=32))
    # Of the call that submitted it.
    request_id: str = field(default="", metadata=rule(max_length=64))


@dataclass(frozen=True, slots=True)
class SyncResponse:
    """The desired document if it changed, and what the portal has received."""

    epoch: int
    # The portal has every event up to this number.
    acked_seq: int
    lease_seconds: int
    revision: int
    # The next call must carry the full observed document.
    full_required: bool
    server_time: str
    # None when the agent's applied revision is current.
    desired: DesiredDocument | None = None
    # Of replicas in the document that are to be prepared.
    origins: tuple[ReplicaOrigin, ...] = field(
        default=(), metadata=omitted_by_default(max_length=MAX_REPLICAS)
    )


@dataclass(frozen=True, slots=True)
class LogResponse:
    """Where the next chunk of this log starts."""

    next_offset: int


def hello_bytes(node_id: str, boot_id: str, time_ms: int, nonce: str, protocol: int) -> bytes:
    """The bytes that a hello's signature covers."""
    return "\n".join(
        ("tessera-hello", node_id, boot_id, str(time_ms), nonce, str(protocol))
    ).encode()
