"""The tunnel of a node: many streams of bytes over one WebSocket, which the agent opens.

Each binary message is one frame: its type (1 byte), the id of its stream (4 bytes, the highest
first), and a payload. The portal opens streams, with ids that only grow.

    OPEN     a target as JSON (`StreamTarget`, `TerminalTarget`, `SshTarget`, `VolumeFileTarget`)
    OPENED   the other side is connected to it
    REFUSED  the code of a `StreamRefusal`
    DATA     1 to MAX_DATA_BYTES bytes, no more than the receiver has allowed
    WINDOW   how many more bytes the sender of this frame takes (4 bytes)
    END      no more data in this direction
    RESET    the stream is given up in both directions

A frame that makes no sense ends the tunnel, with a reason.
"""

import json
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from agents.contract.codec import decode, encode, rule
from agents.contract.ssh import SshTarget
from agents.contract.terminal import TerminalTarget
from agents.contract.volume_files import VolumeFileTarget

TUNNEL_PATH = "/agent/v1/tunnel"
HEAD_BYTES = 5
MAX_DATA_BYTES = 32 << 10
MAX_FRAME_BYTES = HEAD_BYTES + MAX_DATA_BYTES
# Of OPEN, in bytes.
MAX_TARGET_BYTES = 512
# Open at once in one tunnel.
MAX_STREAMS = 1_024
MAX_STREAM_ID = (1 << 32) - 1
# Of RFC 6455: the peer breaks the protocol; the server goes away and another one is there.
PROTOCOL_ERROR, SERVICE_RESTART = 1002, 1012


class FrameType(IntEnum):
    OPEN = 1
    OPENED = 2
    REFUSED = 3
    DATA = 4
    WINDOW = 5
    END = 6
    RESET = 7


class StreamRefusal(StrEnum):
    """Why a stream was not opened. A code never changes its meaning."""

    # No process of the portal holds a tunnel of the node.
    NO_TUNNEL = "no_tunnel"
    # The node does not run this replica of this attempt.
    REPLICA_UNKNOWN = "replica_unknown"
    # Nothing of the replica listens at this port.
    PORT_CLOSED = "port_closed"
    TOO_MANY_STREAMS = "too_many_streams"
    # The terminal that was to be attached again is no longer there.
    TERMINAL_GONE = "terminal_gone"
    # The replica has no such program to be a shell.
    SHELL_MISSING = "shell_missing"
    TOO_MANY_TERMINALS = "too_many_terminals"
    # The node does not offer the root now, or has no such folder below it.
    VOLUME_AWAY = "volume_away"
    FILE_MISSING = "file_missing"
    # Jobs of the project may not read it.
    FILE_FORBIDDEN = "file_forbidden"
    # A folder, a pipe, a device, or a link that leads out of the volume.
    NOT_A_FILE = "not_a_file"
    FILE_TOO_LARGE = "file_too_large"
    # The replica has no SSH server that could be started.
    SSHD_MISSING = "sshd_missing"
    # No answer in time.
    TIMED_OUT = "timed_out"
    # The side that was asked failed, or knows no such target.
    FAILED = "failed"


# In English; pages and REST have them in the reader's language.
REFUSAL_SENTENCES = {
    StreamRefusal.NO_TUNNEL: "The job's node is not connected now. Try again in a few seconds",
    StreamRefusal.REPLICA_UNKNOWN: "This replica does not run now",
    StreamRefusal.PORT_CLOSED: "Nothing in the job listens at this port",
    StreamRefusal.TOO_MANY_STREAMS: "Too many connections are open. Close some of them",
    StreamRefusal.TERMINAL_GONE: "This terminal has ended. Open a new one",
    StreamRefusal.SHELL_MISSING: "The job has no such shell. Name a program of its image",
    StreamRefusal.TOO_MANY_TERMINALS: "Too many terminals of this job are open. Close some of them",
    StreamRefusal.VOLUME_AWAY: "The node does not offer this volume now",
    StreamRefusal.FILE_MISSING: "The volume has no such file",
    StreamRefusal.FILE_FORBIDDEN: "Jobs of the project may not read this file: change its mode, "
    "such as chmod a+r, and that of its folders",
    StreamRefusal.NOT_A_FILE: "This is not a regular file of the volume. Links are followed only "
    "as far as they stay in the volume",
    StreamRefusal.FILE_TOO_LARGE: "It is larger than 256 KB: choose the model's config.json alone",
    StreamRefusal.SSHD_MISSING: (
        "The job has no SSH server. Add the package openssh-server to its image, or use tessera "
        "shell, and tessera cp for files"
    ),
    StreamRefusal.TIMED_OUT: "The job's node did not answer in time. Try again",
    StreamRefusal.FAILED: "The job's node could not connect to the job: its agent's log says why",
}


class FrameRefused(Exception):
    """The peer sent what it must not send: the tunnel ends."""


@dataclass(frozen=True, slots=True)
class Frame:
    type: FrameType
    stream: int
    payload: bytes = b""

    def to_bytes(self) -> bytes:
        return bytes([self.type]) + self.stream.to_bytes(4) + self.payload


@dataclass(frozen=True, slots=True)
class StreamTarget:
    """A TCP port of one replica that the node runs."""

    # The id of the attempt, which is the replica's fence.
    attempt: int = field(metadata=rule(minimum=1))
    rank: int = field(metadata=rule(minimum=0, maximum=65_535))
    port: int = field(metadata=rule(minimum=1, maximum=65_535))


# What OPEN may name.
OpenTarget = StreamTarget | TerminalTarget | SshTarget | VolumeFileTarget


def read_frame(message: bytes) -> Frame:
    """Raises FrameRefused."""
    if not HEAD_BYTES <= len(message) <= MAX_FRAME_BYTES:
        raise FrameRefused(f"a frame of {len(message)} bytes")
    try:
        kind = FrameType(message[0])
    except ValueError:
        raise FrameRefused(f"a frame of type {message[0]}") from None
    frame = Frame(kind, int.from_bytes(message[1:HEAD_BYTES]), bytes(message[HEAD_BYTES:]))
    if not _is_sized(frame):
        raise FrameRefused(f"{kind.name} with {len(frame.payload)} bytes")
    return frame


def read_target(payload: bytes) -> OpenTarget:
    """Raises ContractError or ValueError: not what OPEN carries."""
    data = json.loads(payload)
    if isinstance(data, dict) and "terminal" in data:
        return decode(TerminalTarget, data)
    if isinstance(data, dict) and "volume_file" in data:
        return decode(VolumeFileTarget, data)
    if isinstance(data, dict) and "client_key" in data:
        return decode(SshTarget, data)
    return decode(StreamTarget, data)


def write_target(target: OpenTarget) -> bytes:
    """Up to MAX_TARGET_BYTES where the target has no long path. Raises UnicodeEncodeError."""
    return json.dumps(encode(target), separators=(",", ":"), ensure_ascii=False).encode()


def read_refusal(payload: bytes) -> StreamRefusal:
    """A code that is later than this version is a failure without details."""
    try:
        return StreamRefusal(payload.decode("ascii"))
    except ValueError:
        return StreamRefusal.FAILED


def _is_sized(frame: Frame) -> bool:
    size = len(frame.payload)
    match frame.type:
        case FrameType.OPEN:
            return 0 < size <= MAX_TARGET_BYTES
        case FrameType.DATA:
            return size > 0
        case FrameType.WINDOW:
            return size == 4
        case FrameType.REFUSED:
            return size <= 64
        case _:
            return size == 0
