"""The tunnel of a node: a WebSocket that its agent opens and keeps, and for how long it counts."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError

from agents.contract.calls import EPOCH_HEADER
from agents.contract.tunnel import SERVICE_RESTART
from agents.tunnel.link import SocketClosed, TunnelLink
from portal.agentapi.door import door
from portal.agentapi.endpoint import TOKEN_REFUSED, refusal_of
from portal.agentapi.http import read_whole_number, require_tls
from portal.agentapi.refusals import refusals_recorded
from portal.agentapi.threads import run_in_thread
from portal.asgi_scope import Receive, Scope, Send, header
from portal.audit.codes import AuditAction
from portal.database.kept_queries import KeptSelect
from portal.inventory.credentials import CREDENTIAL_COLUMNS, node_authenticate
from portal.inventory.models import Node
from portal.live.listener import Bell, subscribe
from portal.metrics import AGENT_CALLS
from portal.tunnel.asgi_socket import AsgiSocket, refuse_handshake
from portal.tunnel.held import REPLACED, hold_tunnel
from portal.tunnel.registry import announce_tunnel
from scheduler.core.model.states import NodeStatus

# How often the node's row is read: soon after its bell, and at the latest after the second time.
LOOK_SECONDS, LONGEST_LOOK_SECONDS = 2.0, 60.0
# Of RFC 6455: the server does not want this client any more.
POLICY = 1008
KEYED = KeptSelect(
    lambda node: Node.objects.filter(pk=node).only(
        *CREDENTIAL_COLUMNS, "public_key", "revoked_at", "frozen_at"
    ),
    Node._meta.pk,
)


@dataclass(frozen=True, slots=True)
class TunnelCaller:
    """The node that opened a tunnel, and the key with which it then was enrolled."""

    node_id: UUID
    public_key: str


async def tunnel_endpoint(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one tunnel until either side closes it, the process ends, or the node may call no
    more."""
    try:
        caller = await _caller(scope)
    except Exception as error:
        refusal = refusal_of(error)
        if refusal is None:
            raise
        if refusal.code in TOKEN_REFUSED:
            door().read_again(header(scope, "authorization"))
        AGENT_CALLS.labels("tunnel", str(refusal.status)).inc()
        body, wait = refusal.body(), refusal.retry_seconds
        await refuse_handshake(receive, send, refusal.status, body, retry_after=wait)
        return
    AGENT_CALLS.labels("tunnel", "101").inc()
    await receive()
    socket = AsgiSocket(receive, send)
    link = TunnelLink(socket)
    # Registered before the row is read again: a ring from here on is not missed.
    with suppress(SocketClosed), subscribe(f"node:{caller.node_id}") as bell:
        await socket.accept()
        with hold_tunnel(caller.node_id, link):
            await _hold(link, caller, bell, _own_address(scope))


async def _hold(link: TunnelLink, caller: TunnelCaller, bell: Bell, address: str) -> None:
    carrying = asyncio.ensure_future(link.run())
    welcome = asyncio.ensure_future(_while_welcome(caller, bell))
    announcing = asyncio.ensure_future(announce_tunnel(caller.node_id, address, link))
    tasks: list[asyncio.Future[Any]] = [carrying, welcome, announcing]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if welcome.done():
            await link.close(*welcome.result())
        elif announcing.done():
            await link.close(REPLACED, "the node opened another tunnel")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _while_welcome(caller: TunnelCaller, bell: Bell) -> tuple[int, str]:
    """Returns with which code and reason to close the tunnel, as soon as it must be."""
    while not bell.is_ended:
        with suppress(OperationalError, InterfaceError):
            if not await run_in_thread(_is_welcome, caller=caller):
                return POLICY, "the node may not call any more"
        # Many bells of a busy node are one look.
        await bell.pause(LOOK_SECONDS)
        await bell.wait(LONGEST_LOOK_SECONDS)
    return SERVICE_RESTART, "the process ends"


def _is_welcome(*, caller: TunnelCaller) -> bool:
    """Whether the node is still enrolled with the key that it had. Its session may be a newer one:
    an agent says hello every quarter of an hour."""
    node = next(iter(KEYED.rows(caller.node_id)), None)
    return (
        node is not None
        and node.status != NodeStatus.RETIRED
        and node.public_key == caller.public_key
        and node.frozen_at is None
        and node.revoked_at is None
    )


async def _caller(scope: Scope) -> TunnelCaller:
    """Raises ContractError, as for every other call of an agent."""
    require_tls(scope)
    async with refusals_recorded(AuditAction.AGENT_TOKEN_REFUSED):
        await door().caller(scope, door().tunnels)
    epoch = read_whole_number(header(scope, EPOCH_HEADER), EPOCH_HEADER)
    authorization = header(scope, "authorization")
    return await run_in_thread(_read_caller, authorization=authorization, epoch=epoch)


def _read_caller(*, authorization: str, epoch: int) -> TunnelCaller:
    node = node_authenticate(KEYED, authorization=authorization, epoch=epoch)
    return TunnelCaller(node.pk, node.public_key)


def _own_address(scope: Scope) -> str:
    """HOST:PORT at which the caller, which is the proxy in front, reached this process; so the
    other web processes reach it there, too."""
    host, port = scope["server"]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
