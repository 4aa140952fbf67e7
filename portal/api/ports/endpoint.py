"""`/api/v1/jobs/{id}/ports/{port}?rank=0`: a WebSocket with connections to that port of the job.

It is a tunnel (`agents/contract/tunnel.py`) whose client opens the streams; what OPEN carries is
not looked at. Only API tokens are taken: a page of another site cannot send one, as it would send a
browser's cookie.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TypeVar
from urllib.parse import parse_qs
from weakref import WeakValueDictionary

from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError, connections
from rest_framework.exceptions import AuthenticationFailed

from agents.contract.tunnel import SERVICE_RESTART
from agents.tunnel.link import IncomingStream, SocketClosed, TunnelLink
from agents.tunnel.multiplexer import TunnelBounds
from agents.tunnel.splice import splice
from portal.accounts.sessions import user_bell
from portal.api.ports.access import PortCaller, may_stay_open, port_admit, port_open
from portal.api.protocol.problems import problem_body
from portal.asgi_scope import Receive, Scope, Send, header, is_private
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.event_stream import ShuttingDown, shared_read
from portal.live.listener import Bell, subscribe
from portal.stream_access import SessionChecks
from portal.tunnel.asgi_socket import AsgiSocket, refuse_handshake
from portal.tunnel.streams import StreamRefused, Target, stream_open

PATH = re.compile(r"/api/v1/jobs/(?P<job>[^/]{1,32})/ports/(?P<port>[0-9]{1,5})")
RANK = re.compile(r"[0-9]{1,5}")
MAX_PORT = 65_535
# WebSockets of one user in one process, and what each of them may keep.
MAX_OPEN_PORTS = 16
BOUNDS = TunnelBounds(streams=128, budget_bytes=8 << 20)
# How often rights are looked at while a port is open. A connection ends within 5 s of their loss.
LOOK_SECONDS = 2.0
# Of RFC 6455: the caller may not use this any more.
POLICY = 1008
PORTS_EXHAUSTED = "Too many ports of jobs are open. Close some of them"

T = TypeVar("T")

_open_ports: Counter[int] = Counter()
# By caller; the connections keep them.
_checks: WeakValueDictionary[PortCaller, SessionChecks] = WeakValueDictionary()


def is_port_path(path: str) -> bool:
    return PATH.fullmatch(path) is not None


async def port_endpoint(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one WebSocket until either side closes it, the process ends, or its caller may use it
    no more."""
    with ExitStack() as place:
        try:
            caller, target = await _admitted(scope)
            place.enter_context(_counted(caller.user_pk))
            await _asked(port_open, caller, target)
        except Refused as refused:
            body = problem_body(refused.status, refused.code, refused.sentence, scope["path"])
            await refuse_handshake(receive, send, refused.status, body)
            return
        await receive()
        with suppress(SocketClosed), subscribe(user_bell(caller.user_pk)) as bell:
            await _carry(AsgiSocket(receive, send), caller, target, bell)


async def _admitted(scope: Scope) -> tuple[PortCaller, Target]:
    """Raises Refused."""
    if not is_private(scope):
        raise Refused(ErrorCode.FORBIDDEN, "Tokens travel here: call by https://")
    match = PATH.fullmatch(scope["path"])
    rank = parse_qs(scope["query_string"].decode("latin-1")).get("rank", ["0"])[0]
    if match is None or not 0 < int(match["port"]) <= MAX_PORT:
        raise Refused(ErrorCode.INVALID_FIELD, "A port is a number from 1 to 65535", "port")
    if not RANK.fullmatch(rank):
        raise Refused(ErrorCode.INVALID_FIELD, "A rank is a whole number", "rank")
    try:
        return await _asked(
            port_admit,
            authorization=header(scope, "authorization"),
            ref=match["job"],
            rank=int(rank),
            port=int(match["port"]),
        )
    except AuthenticationFailed as failed:
        raise Refused(ErrorCode.AUTHENTICATION_FAILED, str(failed.detail)) from None


async def _asked(work: Callable[..., T], *arguments: object, **named: object) -> T:
    """`work` of the database, in a thread of its own, whose connection is not kept. Raises
    Refused."""

    def run() -> T:
        try:
            return work(*arguments, **named)
        finally:
            connections.close_all()

    try:
        found: T = await sync_to_async(run, thread_sensitive=False)()
    except (OperationalError, InterfaceError):
        sentence = "The database does not respond. Try again"
        raise Refused(ErrorCode.DATABASE_UNAVAILABLE, sentence) from None
    return found


async def _carry(socket: AsgiSocket, caller: PortCaller, target: Target, bell: Bell) -> None:
    async def serve(incoming: IncomingStream) -> None:
        try:
            stream = await stream_open(target)
        except StreamRefused as refused:
            incoming.refuse(refused.code)
            return
        incoming.accept()
        await splice(incoming, stream)

    await socket.accept()
    link = TunnelLink(socket, serve, BOUNDS)
    carrying = asyncio.ensure_future(link.run())
    allowed = asyncio.ensure_future(_while_allowed(caller, bell))
    try:
        await asyncio.wait({carrying, allowed}, return_when=asyncio.FIRST_COMPLETED)
        if allowed.done():
            await link.close(*allowed.result())
    finally:
        for task in (carrying, allowed):
            task.cancel()
        await asyncio.gather(carrying, allowed, return_exceptions=True)


async def _while_allowed(caller: PortCaller, bell: Bell) -> tuple[int, str]:
    """Returns with which code and reason to close, as soon as the caller has lost the right."""
    checks = _checks.setdefault(caller, SessionChecks())

    async def is_allowed() -> bool:
        try:
            return await shared_read(may_stay_open, caller, share_key=("port", caller))
        except (OperationalError, InterfaceError, ShuttingDown):
            # Nobody can take the right away meanwhile.
            return True

    while not bell.is_ended:
        is_rung = await bell.wait(LOOK_SECONDS)
        if not await checks.passes(is_allowed, 0 if is_rung else LOOK_SECONDS / 2):
            return POLICY, "You may not use this port any more"
    return SERVICE_RESTART, "the process ends"


@contextmanager
def _counted(user_pk: int) -> Iterator[None]:
    """Raises Refused if the user has as many open as one may have."""
    if _open_ports[user_pk] >= MAX_OPEN_PORTS:
        raise Refused(ErrorCode.THROTTLED, PORTS_EXHAUSTED)
    _open_ports[user_pk] += 1
    try:
        yield
    finally:
        _open_ports[user_pk] -= 1
        if not _open_ports[user_pk]:
            del _open_ports[user_pk]
