"""A terminal: a shell in one replica with a screen, carried by one stream of the node's tunnel.

Bytes of the stream are messages in both directions: a type (1 byte), the length of the payload
(2 bytes, the highest first), and the payload.

    client to node   INPUT     what was typed
                     RESIZE    columns and rows of the screen (2 bytes each)
                     HANG_UP   end the terminal now; nothing follows
    node to client   BEGUN     first: the offset of the output that follows (8 bytes)
                     OUTPUT    what the shell and its programs printed
                     ENDED     last: the exit code (1 byte), and the code of a `TerminalEnd`

A client that ends its stream, or loses it, without HANG_UP may attach again: its terminal goes on
for KEEP_SECONDS. It says up to which offset it has the output.
"""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from agents.contract.codec import rule

HEAD_BYTES = 3
MAX_PAYLOAD_BYTES = 16 << 10
# How long a terminal without a client goes on.
KEEP_SECONDS = 60.0
MAX_SIDE = 1_000
# An absolute path of the replica, as shells and images have them.
PROGRAM_PATTERN = r"/[A-Za-z0-9_.+/-]{1,127}"
TERMINAL_PATTERN = r"[0-9a-f]{32}"
# The first of these that the replica has is the shell that nobody chose.
SHELLS = ("/bin/bash", "/bin/sh")


class MessageType(IntEnum):
    INPUT = 1
    RESIZE = 2
    HANG_UP = 3
    BEGUN = 4
    OUTPUT = 5
    ENDED = 6


class TerminalEnd(StrEnum):
    """Why a terminal ended, or left its client. A code never changes its meaning."""

    # The shell ended.
    EXITED = "exited"
    # Nothing was typed or printed for the idle time.
    IDLE = "idle"
    # Another client has it now.
    REPLACED = "replaced"
    # The agent ends.
    AGENT_STOPPED = "agent_stopped"


END_SENTENCES = {
    TerminalEnd.EXITED: "The shell has ended",
    TerminalEnd.IDLE: "The terminal was closed: nothing happened in it for a long time",
    TerminalEnd.REPLACED: "The terminal was opened elsewhere, and goes on there",
    TerminalEnd.AGENT_STOPPED: "The terminal was closed: the agent of its node stopped",
}


class MessageRefused(Exception):
    """The peer sent what is no message: the stream ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalRequest:
    """What a client asks of the portal: a terminal begun, or attached again."""

    # Chosen by the client, at random.
    terminal: str = field(metadata=rule(pattern=TERMINAL_PATTERN))
    # Begin it if it is not there.
    is_new: bool
    # Bytes of output that the client has. Where what follows is not kept any more, BEGUN names a
    # later offset, and the client clears its screen.
    received: int = field(metadata=rule(minimum=0))
    columns: int = field(metadata=rule(minimum=1, maximum=MAX_SIDE))
    rows: int = field(metadata=rule(minimum=1, maximum=MAX_SIDE))
    # Empty: the first of SHELLS that is there.
    program: str = field(metadata=rule(pattern=f"({PROGRAM_PATTERN})?"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalTarget(TerminalRequest):
    """The same in one replica that the node runs."""

    # The id of the attempt, which is the replica's fence.
    attempt: int = field(metadata=rule(minimum=1))
    rank: int = field(metadata=rule(minimum=0, maximum=65_535))
    idle_seconds: int = field(metadata=rule(minimum=1))


@dataclass(frozen=True, slots=True)
class TerminalMessage:
    type: MessageType
    payload: bytes = b""

    def to_bytes(self) -> bytes:
        return bytes([self.type]) + len(self.payload).to_bytes(2) + self.payload


class MessageReader:
    """Messages out of the bytes of a stream, however they were cut."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[TerminalMessage]:
        """The messages that are complete by now. Raises MessageRefused."""
        self._rest += data
        messages = []
        while len(self._rest) >= HEAD_BYTES:
            size = int.from_bytes(self._rest[1:HEAD_BYTES])
            try:
                kind = MessageType(self._rest[0])
            except ValueError:
                raise MessageRefused(f"a message of type {self._rest[0]}") from None
            if not _is_sized(kind, size):
                raise MessageRefused(f"{kind.name} with {size} bytes")
            if len(self._rest) < HEAD_BYTES + size:
                break
            payload = bytes(self._rest[HEAD_BYTES : HEAD_BYTES + size])
            del self._rest[: HEAD_BYTES + size]
            messages.append(TerminalMessage(kind, payload))
        return messages


def input_messages(data: bytes) -> bytes:
    """What was typed, in as many messages as it takes."""
    pieces = range(0, len(data), MAX_PAYLOAD_BYTES)
    return b"".join(
        TerminalMessage(MessageType.INPUT, data[at : at + MAX_PAYLOAD_BYTES]).to_bytes()
        for at in pieces
    )


def resize_message(columns: int, rows: int) -> bytes:
    sides = (min(max(side, 1), MAX_SIDE) for side in (columns, rows))
    return TerminalMessage(
        MessageType.RESIZE, b"".join(side.to_bytes(2) for side in sides)
    ).to_bytes()


def read_size(payload: bytes) -> tuple[int, int]:
    """Columns and rows of RESIZE. Raises MessageRefused."""
    columns, rows = int.from_bytes(payload[:2]), int.from_bytes(payload[2:])
    if not (0 < columns <= MAX_SIDE and 0 < rows <= MAX_SIDE):
        raise MessageRefused(f"a screen of {columns} by {rows}")
    return columns, rows


def end_message(why: TerminalEnd, exit_code: int = 0) -> bytes:
    payload = bytes([exit_code & 0xFF]) + why.encode()
    return TerminalMessage(MessageType.ENDED, payload).to_bytes()


def read_end(payload: bytes) -> tuple[TerminalEnd, int]:
    """Why, and the exit code. A reason that is later than this version is an exit."""
    try:
        why = TerminalEnd(payload[1:].decode("ascii"))
    except ValueError:
        why = TerminalEnd.EXITED
    return why, payload[0]


def _is_sized(kind: MessageType, size: int) -> bool:
    match kind:
        case MessageType.INPUT | MessageType.OUTPUT:
            return 0 < size <= MAX_PAYLOAD_BYTES
        case MessageType.RESIZE:
            return size == 4
        case MessageType.BEGUN:
            return size == 8
        case MessageType.ENDED:
            return 0 < size <= 64
        case MessageType.HANG_UP:
            return size == 0
