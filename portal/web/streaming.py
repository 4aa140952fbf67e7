"""What every event stream needs: messages, an answer that is not stored, few looks at a time, and
no database connection while it waits."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from typing import ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async
from django.db import connection
from django.http import StreamingHttpResponse

HEARTBEAT_SECONDS = 15
# A browser comes back by itself, with the id of the last event it has seen.
LIFE_SECONDS = 600
RETRY_MILLISECONDS = 1_000
# Looks of one process at the same time: streams must not keep pages from being answered.
LOOKS_AT_ONCE = 2

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def streamed(events: AsyncIterator[str]) -> StreamingHttpResponse:
    answer = StreamingHttpResponse(unheld(events), content_type="text/event-stream")
    answer["Cache-Control"] = "no-store"
    answer["X-Accel-Buffering"] = "no"
    return answer


async def unheld(parts: AsyncIterator[S]) -> AsyncIterator[S]:
    """The same parts, without a connection: what stands around a view may have opened one again
    after the view was done."""
    await released()
    async for part in parts:
        yield part


async def released() -> None:
    """Give back the connection with which the caller was recognised. Django would hold it until
    the stream ends."""
    await sync_to_async(_close)()


def _close() -> None:
    # Looked up in the thread that has it: each thread has a connection of its own.
    connection.close()


async def look(read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """One short read in a thread, its connection closed after it, in its turn."""
    loop = asyncio.get_running_loop()
    turn = _turns.setdefault(loop, asyncio.Semaphore(LOOKS_AT_ONCE))
    async with turn:
        return await sync_to_async(_closing, thread_sensitive=False)(read, *args, **kwargs)


def _closing(read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return read(*args, **kwargs)
    finally:
        _close()


def life() -> float:
    """How long a stream lives: not all of them end at once."""
    return LIFE_SECONDS * random.uniform(0.8, 1.0)  # noqa: S311 - jitter, not a secret


def message(event: str, data: str = "", *, id: str = "") -> str:
    head = f"id: {id}\n" if id else ""
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"{head}event: {event}\n{lines}\n"
