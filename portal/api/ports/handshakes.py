"""WebSockets that are being opened: how many at once, in which threads, and for how long.

Who calls is known only once the database has said so. Until then a handshake counts for the address
that it comes from, so that one that sends thousands keeps neither others out nor the threads busy
in which open sockets and pages are looked at.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from contextvars import copy_context
from functools import cache, partial
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connections
from rest_framework.exceptions import AuthenticationFailed

from portal.api.protocol.problems import problem_body
from portal.asgi_scope import Receive, Scope, Send
from portal.client_address import address_network, client_address
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.tunnel.asgi_socket import refuse_handshake

# In one process: of all callers, and of one address, which may be that of a whole office.
MAX_OPENING, MAX_OPENING_OF_ADDRESS = 256, 64
# Clients give up after as long.
HANDSHAKE_SECONDS = 10.0
THREADS = 4
RETRY_SECONDS = 1
OPENING_EXHAUSTED = "Too many connections are being opened at this moment. Try again"
DATABASE_AWAY = "The database does not respond. Try again"

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_opening: Counter[str] = Counter()
_opening_of_address: Counter[str] = Counter()


@asynccontextmanager
async def handshake() -> AsyncIterator[None]:
    """While the block runs, one more socket is being opened. Raises Refused if there are too many,
    or if the block does not end in time."""
    address = address_network(client_address())
    with (
        counted_socket(_opening, "", MAX_OPENING, OPENING_EXHAUSTED, RETRY_SECONDS),
        counted_socket(
            _opening_of_address, address, MAX_OPENING_OF_ADDRESS, OPENING_EXHAUSTED, RETRY_SECONDS
        ),
    ):
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                yield
        except TimeoutError:
            raise _database_away() from None


@contextmanager
def counted_socket(
    counts: Counter[K], key: K, limit: int, sentence: str, retry_seconds: int = 0
) -> Iterator[None]:
    """One more for this key while the block runs. Raises Refused with the sentence if there are
    `limit` already."""
    if counts[key] >= limit:
        raise Refused(ErrorCode.THROTTLED, sentence, retry_seconds=retry_seconds)
    counts[key] += 1
    try:
        yield
    finally:
        counts[key] -= 1
        if not counts[key]:
            del counts[key]


async def in_database_thread(work: Callable[[], T]) -> T:
    """What `work` of the database returns, in a thread for handshakes whose connection is not kept.
    Raises Refused."""
    # With the address and the request id of the call, which audit lines name.
    run = partial(copy_context().run, _without_connection, work)
    try:
        return await asyncio.get_running_loop().run_in_executor(_pool(), run)
    except AuthenticationFailed as failed:
        raise Refused(ErrorCode.AUTHENTICATION_FAILED, str(failed.detail)) from None
    except (OperationalError, InterfaceError):
        raise _database_away() from None


async def refuse_socket(scope: Scope, receive: Receive, send: Send, refused: Refused) -> None:
    """Answer the handshake with a problem, as REST has it."""
    body = problem_body(refused.status, refused.code, refused.sentence, scope["path"])
    wait = refused.retry_seconds
    await refuse_handshake(receive, send, refused.status, body, retry_after=wait)


def _database_away() -> Refused:
    return Refused(ErrorCode.DATABASE_UNAVAILABLE, DATABASE_AWAY, retry_seconds=RETRY_SECONDS)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="handshakes")


def _without_connection(work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        connections.close_all()
