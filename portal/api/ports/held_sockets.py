"""WebSockets with streams to jobs, each held for as long as its caller may use it."""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from django.db import InterfaceError, OperationalError

from agents.contract.tunnel import SERVICE_RESTART
from agents.tunnel.link import Serve, TunnelLink
from agents.tunnel.multiplexer import TunnelBounds
from portal.event_stream import ShuttingDown, shared_read
from portal.live.listener import Bell
from portal.stream_access import SessionChecks
from portal.tunnel.asgi_socket import AsgiSocket

# How often rights are looked at while a socket is open. It ends within 5 s of their loss.
LOOK_SECONDS = 2.0
# Of RFC 6455: the caller may not use this any more.
POLICY = 1008

C = TypeVar("C", bound=Hashable)

# By caller; the connections keep them.
_checks: WeakValueDictionary[Hashable, SessionChecks] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class SocketRule(Generic[C]):
    """Until when a socket of this caller stays open."""

    caller: C
    may_stay_open: Callable[[C], bool]
    sentence: str
    """What the caller is told who may not any more."""


async def carry_streams(
    socket: AsgiSocket, serve: Serve, bounds: TunnelBounds, rule: SocketRule[C], bell: Bell
) -> None:
    """Serve the streams of one socket until either side closes it, the process ends, or its caller
    may use it no more. `bell`: of the caller."""
    await socket.accept()
    link = TunnelLink(socket, serve, bounds)
    carrying = asyncio.ensure_future(link.run())
    allowed = asyncio.ensure_future(_while_allowed(rule, bell))
    try:
        await asyncio.wait({carrying, allowed}, return_when=asyncio.FIRST_COMPLETED)
        if allowed.done():
            await link.close(*allowed.result())
    finally:
        for task in (carrying, allowed):
            task.cancel()
        await asyncio.gather(carrying, allowed, return_exceptions=True)


async def _while_allowed(rule: SocketRule[C], bell: Bell) -> tuple[int, str]:
    """Returns with which code and reason to close, as soon as the caller has lost the right."""
    checks = _checks.setdefault(rule.caller, SessionChecks())
    key = (rule.may_stay_open, rule.caller)

    async def is_allowed() -> bool:
        try:
            return await shared_read(rule.may_stay_open, rule.caller, share_key=key)
        except (OperationalError, InterfaceError, ShuttingDown):
            # Nobody can take the right away meanwhile.
            return True

    while not bell.is_ended:
        is_rung = await bell.wait(LOOK_SECONDS)
        if not await checks.passes(is_allowed, 0 if is_rung else LOOK_SECONDS / 2):
            return POLICY, rule.sentence
    return SERVICE_RESTART, "the process ends"
