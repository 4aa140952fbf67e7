"""WebSockets with streams to jobs, each held for as long as its caller may use it."""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError, connections
from rest_framework.exceptions import AuthenticationFailed

from agents.contract.tunnel import SERVICE_RESTART
from agents.tunnel.link import Serve, TunnelLink
from agents.tunnel.multiplexer import TunnelBounds
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.event_stream import ShuttingDown, shared_read
from portal.live.listener import Bell
from portal.stream_access import SessionChecks
from portal.tunnel.asgi_socket import AsgiSocket

# How often rights are looked at while a socket is open. It ends within 5 s of their loss.
LOOK_SECONDS = 2.0
# Of RFC 6455: the caller may not use this any more.
POLICY = 1008

C = TypeVar("C", bound=Hashable)
T = TypeVar("T")

# By caller; the connections keep them.
_checks: WeakValueDictionary[Hashable, SessionChecks] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class SocketRule(Generic[C]):
    """Until when a socket of this caller stays open."""

    caller: C
    may_stay_open: Callable[[C], bool]
    sentence: str
    """What the caller is told who may not any more."""


async def in_database_thread(work: Callable[[], T]) -> T:
    """What `work` of the database returns, in a thread whose connection is not kept. Raises
    Refused."""
    try:
        found: T = await sync_to_async(_without_connection, thread_sensitive=False)(work)
    except AuthenticationFailed as failed:
        raise Refused(ErrorCode.AUTHENTICATION_FAILED, str(failed.detail)) from None
    except (OperationalError, InterfaceError):
        sentence = "The database does not respond. Try again"
        raise Refused(ErrorCode.DATABASE_UNAVAILABLE, sentence) from None
    return found


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


@contextmanager
def counted_socket(counts: Counter[int], user_pk: int, limit: int, sentence: str) -> Iterator[None]:
    """Raises Refused if the user has as many open as one may have."""
    if counts[user_pk] >= limit:
        raise Refused(ErrorCode.THROTTLED, sentence)
    counts[user_pk] += 1
    try:
        yield
    finally:
        counts[user_pk] -= 1
        if not counts[user_pk]:
            del counts[user_pk]


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


def _without_connection(work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        connections.close_all()
