"""`/api/v1/jobs/{id}/terminal?rank=0`: a WebSocket with a terminal in that replica of the job;
`/api/v1/jobs/{id}/ssh?rank=0`: one with SSH, which takes tokens alone.

It is a tunnel (`agents/contract/tunnel.py`) whose client opens one stream; OPEN carries a
`TerminalRequest`, the stream the messages of `agents/contract/terminal.py`; or an `SshRequest` and
what `agents/contract/ssh.py` says. The rules are the same. The command line calls
with a token. A browser calls with its session's cookie, which it would send for a page of another
origin as well, so `Origin` has to be the portal's own.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from http.cookies import CookieError, SimpleCookie

from django.conf import settings

from agents.contract.codec import decode, encode
from agents.contract.errors import ContractError
from agents.contract.ssh import SshTarget, read_request
from agents.contract.terminal import TerminalRequest, TerminalTarget
from agents.contract.tunnel import OpenTarget, StreamRefusal
from agents.tunnel.link import IncomingStream, SocketClosed
from agents.tunnel.multiplexer import TunnelBounds
from agents.tunnel.splice import splice
from portal.accounts.sessions import user_bell
from portal.api.ports.endpoint import read_rank, require_private
from portal.api.ports.handshakes import (
    counted_socket,
    handshake,
    in_database_thread,
    refuse_socket,
)
from portal.api.ports.held_sockets import SocketRule, carry_streams
from portal.api.terminals.access import (
    TerminalCaller,
    TerminalPlace,
    may_stay_open,
    terminal_admit,
    terminal_open,
)
from portal.asgi_scope import Receive, Scope, Send, header, is_over_tls
from portal.audit.codes import AuditAction
from portal.errors import Refused
from portal.live.listener import subscribe
from portal.tunnel.asgi_socket import AsgiSocket
from portal.tunnel.streams import StreamRefused, node_stream_open

PATH = re.compile(r"/api/v1/jobs/(?P<job>[^/]{1,32})/(?P<way>terminal|ssh)")
# WebSockets of one user in one process, and what each of them may keep.
MAX_OPEN_TERMINALS = 16
BOUNDS = TunnelBounds(streams=2, budget_bytes=1 << 20)
ACTIONS = {"terminal": AuditAction.TERMINAL_OPEN, "ssh": AuditAction.SSH_OPEN}
TERMINALS_EXHAUSTED = "Too many terminals are open. Close some of them"
TERMINAL_LOST = "You may not use this terminal any more"

_open_terminals: Counter[int] = Counter()


def is_terminal_path(path: str) -> bool:
    return PATH.fullmatch(path) is not None


async def terminal_endpoint(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one WebSocket until either side closes it, the process ends, or its caller may use it
    no more."""
    with ExitStack() as open_socket:
        try:
            async with handshake():
                caller, place = await _admitted(scope)
                count = (_open_terminals, caller.user_pk, MAX_OPEN_TERMINALS, TERMINALS_EXHAUSTED)
                open_socket.enter_context(counted_socket(*count))
                way = scope["path"].rpartition("/")[2]
                await in_database_thread(partial(terminal_open, caller, place, ACTIONS[way]))
        except Refused as refused:
            await refuse_socket(scope, receive, send, refused)
            return
        await receive()
        rule = SocketRule(caller, may_stay_open, TERMINAL_LOST)
        with suppress(SocketClosed), subscribe(user_bell(caller.user_pk)) as bell:
            serve = partial(_serve, place, _ssh_target if way == "ssh" else _terminal_target)
            await carry_streams(AsgiSocket(receive, send), serve, BOUNDS, rule, bell)


async def _admitted(scope: Scope) -> tuple[TerminalCaller, TerminalPlace]:
    """Raises Refused."""
    require_private(scope)
    match = PATH.fullmatch(scope["path"])
    return await in_database_thread(
        partial(
            terminal_admit,
            authorization=header(scope, "authorization"),
            session_key=_session_key(scope) if match and match["way"] == "terminal" else "",
            ref=match["job"] if match else "",
            rank=read_rank(scope),
        )
    )


def _session_key(scope: Scope) -> str:
    """Of the browser whose page of the portal calls; empty for any other page."""
    if not _is_own_page(scope):
        return ""
    cookies: SimpleCookie = SimpleCookie()
    with suppress(CookieError):
        cookies.load(header(scope, "cookie"))
    cookie = cookies.get(settings.SESSION_COOKIE_NAME)
    return cookie.value if cookie else ""


def _is_own_page(scope: Scope) -> bool:
    """Not the page of the same host by http:// where this call came by TLS: somebody on the way may
    have written that one."""
    origin, scheme = header(scope, "origin"), "https" if is_over_tls(scope) else "http"
    own = f"{scheme}://{header(scope, 'host')}"
    return origin == own or origin in settings.CSRF_TRUSTED_ORIGINS


def _terminal_target(place: TerminalPlace, target: bytes) -> TerminalTarget:
    """Raises ContractError or ValueError."""
    return TerminalTarget(
        **encode(decode(TerminalRequest, json.loads(target))),
        attempt=place.attempt_id,
        rank=place.rank,
        idle_seconds=_idle_seconds(),
    )


def _ssh_target(place: TerminalPlace, target: bytes) -> SshTarget:
    """Raises ContractError or ValueError."""
    return SshTarget(
        client_key=read_request(target).client_key,
        attempt=place.attempt_id,
        rank=place.rank,
        idle_seconds=_idle_seconds(),
    )


def _idle_seconds() -> int:
    return 60 * settings.PLATFORM.terminal_idle_minutes


async def _serve(
    place: TerminalPlace,
    node_target: Callable[[TerminalPlace, bytes], OpenTarget],
    incoming: IncomingStream,
) -> None:
    try:
        target = node_target(place, incoming.target)
    except (ContractError, ValueError):
        incoming.refuse(StreamRefusal.FAILED)
        return
    try:
        stream = await node_stream_open(place.node_id, target)
    except StreamRefused as refused:
        incoming.refuse(refused.code)
        return
    incoming.accept()
    await splice(incoming, stream)
