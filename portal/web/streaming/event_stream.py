"""What every event stream needs: who reads, messages, an answer that is not stored, looks in turn,
and no database connection while it waits."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.http import HttpRequest, StreamingHttpResponse

from portal.accounts.models import User
from portal.live.listener import listener

HEARTBEAT_SECONDS = 15
# A browser comes back by itself, with the id of the last event it has seen.
LIFE_SECONDS = 600
RETRY_MILLISECONDS = 1_000
# Looks of one process at the same time, and how long each place rests after one, in times of what
# it took: streams work half of the time at most, and less where others need the processor.
LOOKS_AT_ONCE = 2
REST = 3

T = TypeVar("T")
S = TypeVar("S")


class GoingDown(Exception):
    """The process ends: what has not been looked at yet is looked at by the next one."""


@dataclass(slots=True)
class Turns:
    """The looks of one event loop. `waiting`: those that have not begun to read."""

    free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LOOKS_AT_ONCE))
    waiting: dict[Hashable, asyncio.Task[Any]] = field(default_factory=dict)


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


async def reader_of(request: HttpRequest) -> User | None:
    """Who is signed in, without the connection with which that was found out."""
    user = await request.auser()
    await released()
    return None if isinstance(user, AnonymousUser) else user


def seen_by(request: HttpRequest) -> str:
    """The last event that the reader has: a browser that comes back says it, and the address says
    what the page itself began with."""
    return request.headers.get("Last-Event-ID", "") or request.GET.get("from", "")


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


async def look(read: Callable[..., T], *args: Any, same: Hashable = None) -> T:
    """One short read in a thread, its connection closed after it, in its turn.

    Readers who ask for the `same` share one that has not begun: it sees all that rang for each of
    them. So a job that three hundred pages follow is read once, not three hundred times. Raises
    GoingDown where the process does, for them alone.
    """
    turns = _turns.setdefault(asyncio.get_running_loop(), Turns())
    if same is None:
        return await _in_turn(turns, read, args, None)
    task = turns.waiting.get(same)
    if task is None:
        task = asyncio.create_task(_in_turn(turns, read, args, same))
        task.add_done_callback(_forgotten)
        turns.waiting[same] = task
    # Who goes away takes nobody else along.
    found: T = await asyncio.shield(task)
    return found


async def _in_turn(
    turns: Turns, read: Callable[..., T], args: tuple[Any, ...], same: Hashable
) -> T:
    await turns.free.acquire()
    turns.waiting.pop(same, None)
    took = [0.0]
    try:
        if same is not None and listener().is_closing:
            raise GoingDown
        return await sync_to_async(_closing, thread_sensitive=False)(took, read, args)
    finally:
        asyncio.get_running_loop().call_later(took[0] * REST, turns.free.release)


def _closing(took: list[float], read: Callable[..., T], args: tuple[Any, ...]) -> T:
    begun = time.monotonic()
    try:
        return read(*args)
    finally:
        _close()
        took[0] = time.monotonic() - begun


def _forgotten(task: asyncio.Task[Any]) -> None:
    """A failure that nobody waits for any more is no news."""
    if not task.cancelled():
        task.exception()


def life() -> float:
    """How long a stream lives: not all of them end at once."""
    return LIFE_SECONDS * random.uniform(0.8, 1.0)  # noqa: S311 - jitter, not a secret


def retry() -> str:
    """How soon a browser comes back."""
    return f"retry: {RETRY_MILLISECONDS}\n\n"


def message(event: str, data: str = "", *, id: str = "") -> str:
    head = f"id: {id}\n" if id else ""
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"{head}event: {event}\n{lines}\n"
