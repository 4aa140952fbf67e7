"""Streams to ports of running replicas, terminals and SSH in them and files of volumes, from any
process of the portal.

    stream = await stream_open(Target(node_id, attempt_id, rank, port))
    await stream.write(b"GET / HTTP/1.1\\r\\n…")
    data = await stream.read()

Who may open one is the caller's to check, before and while it is open.
"""

import asyncio
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from django.utils.translation import gettext

from agents.contract.tunnel import (
    MAX_TARGET_BYTES,
    REFUSAL_SENTENCES,
    OpenTarget,
    StreamRefusal,
    StreamTarget,
    write_target,
)
from agents.tunnel.link import OpenRefused, StreamReset, TunnelLink
from portal.tunnel.held import held_tunnel
from portal.tunnel.relay import UUID_BYTES, RelayAway, relay_open

# The node looks for the replica and connects to it. Longer than a web process that ends keeps its
# tunnels and takes no connections.
OPEN_SECONDS = 10.0
# A tunnel that a web process took with it is there again after about a second.
TUNNEL_SECONDS = 5.0
LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Target:
    """A TCP port of one replica, on the node that runs it."""

    node_id: UUID
    attempt_id: int
    rank: int
    port: int


class PortStream(Protocol):
    """Bytes in both directions. One task may read while another one writes."""

    async def read(self) -> bytes:
        """The next bytes, as many as have arrived; b"" at the end. Raises ConnectionResetError."""

    async def write(self, data: bytes) -> None:
        """Returns once the other side has room for all of it. Raises ConnectionResetError."""

    async def end(self) -> None:
        """No more data from this side. Raises ConnectionResetError."""

    def abort(self) -> None:
        """Give it up; what was written may be lost. No effect once both directions have ended."""


class StreamRefused(Exception):
    """There is no way to the port now."""

    def __init__(self, code: StreamRefusal, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


async def stream_open(target: Target) -> PortStream:
    """Connect to the port. Raises StreamRefused."""
    wire = StreamTarget(target.attempt_id, target.rank, target.port)
    return await node_stream_open(target.node_id, wire)


def is_target_short(target: OpenTarget) -> bool:
    """Whether it can be opened: a relay puts the node's id before it."""
    return len(write_target(target)) <= MAX_TARGET_BYTES - UUID_BYTES


async def node_stream_open(node_id: UUID, target: OpenTarget) -> PortStream:
    """A stream to what the node is to look for: a port, a terminal, SSH or a file. `target`: a
    short one. Raises StreamRefused."""
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            return await _opened(node_id, write_target(target))
    except OpenRefused as refused:
        raise stream_refused(refused.why) from None
    except (StreamReset, RelayAway):
        raise stream_refused(StreamRefusal.NO_TUNNEL) from None
    except TimeoutError:
        raise stream_refused(StreamRefusal.TIMED_OUT) from None


def stream_refused(code: StreamRefusal) -> StreamRefused:
    """With its sentence in the present language."""
    return StreamRefused(code, gettext(REFUSAL_SENTENCES[code]))


async def _opened(node_id: UUID, wire: bytes) -> PortStream:
    """Through the tunnel of this process, or of the one that holds it. Waits a little for a tunnel
    that is away, and as long as its caller does for the end of a process that holds it."""
    loop = asyncio.get_running_loop()
    end = loop.time() + TUNNEL_SECONDS
    while True:
        link: TunnelLink | None = held_tunnel(node_id)
        try:
            if link is not None:
                return await link.open(wire)
            return await relay_open(node_id, wire)
        except OpenRefused as refused:
            if refused.why is not StreamRefusal.NO_TUNNEL or loop.time() >= end:
                raise
        except StreamReset:
            if loop.time() >= end:
                raise
        except RelayAway as away:
            if loop.time() >= end and not away.is_silent:
                raise
        await asyncio.sleep(LOOK_SECONDS)
