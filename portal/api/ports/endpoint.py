"""`/api/v1/jobs/{id}/ports/{port}?rank=0`: a WebSocket with connections to that port of the job.

It is a tunnel (`agents/contract/tunnel.py`) whose client opens the streams; what OPEN carries is
not looked at. Only API tokens are taken: a page of another site cannot send one, as it would send a
browser's cookie.
"""

import re
from collections import Counter
from contextlib import ExitStack, suppress
from functools import partial
from urllib.parse import parse_qs

from agents.tunnel.link import IncomingStream, SocketClosed
from agents.tunnel.multiplexer import TunnelBounds
from agents.tunnel.splice import splice
from portal.accounts.sessions import user_bell
from portal.api.ports.access import PortCaller, may_stay_open, port_admit, port_open
from portal.api.ports.handshakes import (
    counted_socket,
    handshake,
    in_database_thread,
    refuse_socket,
)
from portal.api.ports.held_sockets import SocketRule, carry_streams
from portal.asgi_scope import Receive, Scope, Send, header, is_private
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.live.listener import subscribe
from portal.tunnel.asgi_socket import AsgiSocket
from portal.tunnel.streams import StreamRefused, Target, stream_open

PATH = re.compile(r"/api/v1/jobs/(?P<job>[^/]{1,32})/ports/(?P<port>[0-9]{1,5})")
RANK = re.compile(r"[0-9]{1,5}")
MAX_PORT = 65_535
# WebSockets of one user in one process, and what each of them may keep.
MAX_OPEN_PORTS = 16
BOUNDS = TunnelBounds(streams=128, budget_bytes=8 << 20)
PORTS_EXHAUSTED = "Too many ports of jobs are open. Close some of them"
PORT_LOST = "You may not use this port any more"

_open_ports: Counter[int] = Counter()


def is_port_path(path: str) -> bool:
    return PATH.fullmatch(path) is not None


async def port_endpoint(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one WebSocket until either side closes it, the process ends, or its caller may use it
    no more."""
    with ExitStack() as place:
        try:
            async with handshake():
                caller, target = await _admitted(scope)
                count = (_open_ports, caller.user_pk, MAX_OPEN_PORTS, PORTS_EXHAUSTED)
                place.enter_context(counted_socket(*count))
                await in_database_thread(partial(port_open, caller, target))
        except Refused as refused:
            await refuse_socket(scope, receive, send, refused)
            return
        await receive()
        rule = SocketRule(caller, may_stay_open, PORT_LOST)
        with suppress(SocketClosed), subscribe(user_bell(caller.user_pk)) as bell:
            serve = partial(_serve, target)
            await carry_streams(AsgiSocket(receive, send), serve, BOUNDS, rule, bell)


async def _admitted(scope: Scope) -> tuple[PortCaller, Target]:
    """Raises Refused."""
    require_private(scope)
    match = PATH.fullmatch(scope["path"])
    if match is None or not 0 < int(match["port"]) <= MAX_PORT:
        raise Refused(ErrorCode.INVALID_FIELD, "A port is a number from 1 to 65535", "port")
    return await in_database_thread(
        partial(
            port_admit,
            authorization=header(scope, "authorization"),
            ref=match["job"],
            rank=read_rank(scope),
            port=int(match["port"]),
        )
    )


def require_private(scope: Scope) -> None:
    """Raises Refused where somebody on the way could read a secret of the caller."""
    if not is_private(scope):
        raise Refused(ErrorCode.FORBIDDEN, "Tokens travel here: call by https://")


def read_rank(scope: Scope) -> int:
    """Of the query, by default the first. Raises Refused."""
    rank = parse_qs(scope["query_string"].decode("latin-1")).get("rank", ["0"])[0]
    if not RANK.fullmatch(rank):
        raise Refused(ErrorCode.INVALID_FIELD, "A rank is a whole number", "rank")
    return int(rank)


async def _serve(target: Target, incoming: IncomingStream) -> None:
    try:
        stream = await stream_open(target)
    except StreamRefused as refused:
        incoming.refuse(refused.code)
        return
    incoming.accept()
    await splice(incoming, stream)
