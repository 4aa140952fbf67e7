"""From the web process that wants a stream to the one that holds the node's tunnel.

The holder is called at the address where the proxy calls it, so nothing else has to listen. One
connection carries the streams of all nodes that the holder has, in the frames of a tunnel; OPEN
has the node's id before the target.
"""

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID
from weakref import WeakKeyDictionary

from django.utils.crypto import constant_time_compare, salted_hmac
from websockets.exceptions import WebSocketException

from agents.contract.tunnel import MAX_FRAME_BYTES, MAX_STREAMS, SERVICE_RESTART, StreamRefusal
from agents.tunnel.client_socket import ClientSocket, Dial
from agents.tunnel.link import (
    IncomingStream,
    OpenRefused,
    SocketClosed,
    StreamReset,
    TunnelLink,
    TunnelStream,
)
from agents.tunnel.splice import splice
from portal.asgi_scope import Receive, Scope, Send, header
from portal.live.listener import bell_ended, subscribe
from portal.tunnel.asgi_socket import AsgiSocket, refuse_handshake
from portal.tunnel.held import held_tunnel
from portal.tunnel.registry import PROCESS, Holder, find_holder

RELAY_PATH = "/internal/v1/tunnels"
SALT = "portal.tunnel.relay"
SCHEME = "Relay "
# How old a signature may be: clocks of web hosts are kept right.
MAX_AGE_SECONDS = 60
CONNECT_SECONDS = 3.0
UUID_BYTES = 16

log = logging.getLogger(__name__)


class RelayAway(Exception):
    """No other process holds the node's tunnel, or it does not answer."""

    def __init__(self, *, is_silent: bool = False) -> None:
        super().__init__()
        self.is_silent = is_silent
        """One does and made no connection in time: perhaps it ends (portal/draining.py)."""


@dataclass(slots=True)
class Relays:
    """Of one event loop, to other processes by their id."""

    links: dict[str, list[TunnelLink]] = field(default_factory=dict)
    dialing: dict[str, asyncio.Lock] = field(default_factory=dict)
    running: set[asyncio.Task[None]] = field(default_factory=set)


_relays: WeakKeyDictionary[asyncio.AbstractEventLoop, Relays] = WeakKeyDictionary()


async def relay_open(node_id: UUID, target: bytes) -> TunnelStream:
    """A stream through the process that holds the node's tunnel. Raises RelayAway, OpenRefused, and
    StreamReset if that process ends."""
    holder = await find_holder(node_id)
    if holder is None:
        raise RelayAway
    link = await _link_to(holder)
    return await link.open(node_id.bytes + target)


async def relay_endpoint(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve another process of the portal: streams through the tunnels that are held here."""
    if not _is_ours(header(scope, "authorization")):
        await refuse_handshake(receive, send, 404, {"error": "not_found"})
        return
    await receive()
    socket = AsgiSocket(receive, send)
    link = TunnelLink(socket, _serve)
    with suppress(SocketClosed), subscribe() as bell:
        await socket.accept()
        running = asyncio.ensure_future(link.run())
        ending = asyncio.ensure_future(bell_ended(bell))
        try:
            await asyncio.wait({running, ending}, return_when=asyncio.FIRST_COMPLETED)
            await link.close(SERVICE_RESTART, "the process ends")
        finally:
            ending.cancel()
            running.cancel()
            await asyncio.gather(running, ending, return_exceptions=True)


async def close_relays() -> None:
    """Of the running loop, at its end."""
    relays = _relays.pop(asyncio.get_running_loop(), None)
    if relays:
        for task in relays.running:
            task.cancel()
        await asyncio.gather(*relays.running, return_exceptions=True)


async def _serve(incoming: IncomingStream) -> None:
    try:
        node_id = UUID(bytes=incoming.target[:UUID_BYTES])
    except ValueError:
        incoming.refuse(StreamRefusal.FAILED)
        return
    link = held_tunnel(node_id)
    if link is None:
        incoming.refuse(StreamRefusal.NO_TUNNEL)
        return
    try:
        stream = await link.open(incoming.target[UUID_BYTES:])
    except OpenRefused as refused:
        incoming.refuse(refused.why)
        return
    except StreamReset:
        incoming.refuse(StreamRefusal.NO_TUNNEL)
        return
    incoming.accept()
    await splice(incoming, stream)


async def _link_to(holder: Holder) -> TunnelLink:
    """One that has room. Raises RelayAway."""
    relays = _relays.setdefault(asyncio.get_running_loop(), Relays())
    async with relays.dialing.setdefault(holder.process, asyncio.Lock()):
        links = relays.links.setdefault(holder.process, [])
        for link in links:
            if link.stream_count < MAX_STREAMS:
                return link
        socket = await _dial(holder)
        link = TunnelLink(socket)
        links.append(link)
        running = asyncio.ensure_future(_run(link, socket, links))
        relays.running.add(running)
        running.add_done_callback(relays.running.discard)
        return link


async def _run(link: TunnelLink, socket: ClientSocket, links: list[TunnelLink]) -> None:
    try:
        await link.run()
    finally:
        links.remove(link)
        with suppress(SocketClosed):
            await socket.close(1000, "")


async def _dial(holder: Holder) -> ClientSocket:
    """Raises RelayAway."""
    try:
        connection = await Dial(
            f"ws://{holder.address}{RELAY_PATH}",
            additional_headers={"Authorization": _signed(holder.process, int(time.time()))},
            compression=None,
            max_size=MAX_FRAME_BYTES,
            open_timeout=CONNECT_SECONDS,
            # Web processes reach each other without one, whatever the environment has.
            proxy=None,
        )
    except (OSError, TimeoutError, WebSocketException) as error:
        log.warning("the web process at %s does not answer: %s", holder.address, error)
        raise RelayAway(is_silent=isinstance(error, TimeoutError)) from error
    return ClientSocket(connection)


def _signed(process: str, at: int) -> str:
    """For the process of that id alone: one that took over its address refuses."""
    signature = salted_hmac(SALT, f"{process} {at}", algorithm="sha256").hexdigest()
    return f"{SCHEME}{at}.{signature}"


def _is_ours(authorization: str) -> bool:
    at = authorization.removeprefix(SCHEME).partition(".")[0]
    if not at.isdecimal() or len(at) > 12 or abs(time.time() - int(at)) > MAX_AGE_SECONDS:
        return False
    return constant_time_compare(authorization, _signed(PROCESS, int(at)))
