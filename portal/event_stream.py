"""Building blocks of every event stream: its user, its events, and database reads that share their
result and hold no connection while the stream waits."""

import asyncio
import random
import time
import weakref
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.accounts.sessions import is_session_live
from portal.live.listener import listener
from portal.stream_access import (
    RETRY_SECONDS,
    StreamOwner,
    StreamPlace,
    TooManyStreams,
    while_signed_in,
)

# A page says that it is not live once it has heard nothing for 15 s (portal/static/live_marker.js).
HEARTBEAT_SECONDS = 10
# The browser then reconnects by itself, with the id of the last event it received.
MAX_LIFETIME_SECONDS = 600
RETRY_MILLISECONDS = 1_000
# The same where the process ends and others are there; the streams do not come all at once.
DRAINED_RETRY_MILLISECONDS = (50, 550)
# Concurrent reads of one process. After a read its slot rests for this many times the read's
# duration, so streams use a bounded share of the processor.
MAX_CONCURRENT_READS = 2
REST_FACTOR = 3

T = TypeVar("T")
S = TypeVar("S")


class ShuttingDown(Exception):
    """The process is ending; reads that have not begun are left to the next process."""


@dataclass(slots=True)
class ReadQueue:
    """The reads of one event loop."""

    slots: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT_READS)
    )
    waiting: dict[Hashable, asyncio.Task[Any]] = field(default_factory=dict)
    """Reads that have not begun, by their share key."""


_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, ReadQueue] = WeakKeyDictionary()


async def stream_user(request: HttpRequest) -> User | None:
    """The signed-in user. The database connection used to find them is closed."""
    user = await request.auser()
    await release_connection()
    return None if isinstance(user, AnonymousUser) else user


def last_event_id(request: HttpRequest) -> str:
    """The last event that the page has: from the header of a reconnecting browser, or from the
    address that the page itself was rendered with."""
    return request.headers.get("Last-Event-ID", "") or request.GET.get("from", "")


def stream_owner(request: HttpRequest, user: User) -> StreamOwner:
    return StreamOwner(user.pk, request.session.session_key or "")


class EventStreamResponse(StreamingHttpResponse):
    """Gives its place back when it is closed, which the server does however the call ended."""

    place: StreamPlace

    def close(self) -> None:
        super().close()
        self.place.release()


def event_stream_response(events: AsyncIterator[str], owner: StreamOwner) -> HttpResponseBase:
    """The events while the owner's session lives; 429 if the owner has too many streams open."""
    try:
        place = StreamPlace(owner.user_pk)
    except TooManyStreams:
        sentence = _("Too many live pages are open. Close some of them; this one reads again later")
        refusal = HttpResponse(sentence, status=429, content_type="text/plain; charset=utf-8")
        refusal["Retry-After"] = str(RETRY_SECONDS)
        return refusal
    if owner.session_key:
        events = while_signed_in(events, owner, partial(_is_session_live, owner))
    parts = without_connection(_until_drained(events))
    response = EventStreamResponse(parts, content_type="text/event-stream")
    response.place = place
    # Nobody closes the response to a caller that hung up before it was made.
    weakref.finalize(response, place.release)
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


async def _is_session_live(owner: StreamOwner) -> bool:
    try:
        return await shared_read(
            is_session_live, owner.user_pk, owner.session_key, share_key=("session", owner)
        )
    except ShuttingDown:
        return False


async def _until_drained(events: AsyncIterator[str]) -> AsyncIterator[str]:
    """The events, and where they end because the process does, a sooner return. The process that
    the browser then reaches sets the usual pause again."""
    async with aclosing(events) as source:  # type: ignore[type-var]  # all are generators
        async for event in source:
            yield event
    if listener().is_closing:
        yield retry_directive(random.randint(*DRAINED_RETRY_MILLISECONDS))  # noqa: S311 - jitter


async def without_connection(parts: AsyncIterator[S]) -> AsyncIterator[S]:
    """The same parts, with the database connection closed first: middleware may have opened one
    again after the view returned."""
    await release_connection()
    async with aclosing(parts) as source:  # type: ignore[type-var]  # a generator
        async for part in source:
            yield part


async def release_connection() -> None:
    """Close the connection that authenticated the caller; Django would hold it until the stream
    ends."""
    await sync_to_async(_close)()


def _close() -> None:
    # Runs in the thread that opened it: every thread has a connection of its own.
    connection.close()


async def shared_read(read: Callable[..., T], *args: Any, share_key: Hashable = None) -> T:
    """Run one short database read in a thread, when a slot is free, and close its connection.

    Callers with the same `share_key` share a read that has not begun: it sees everything that rang
    for any of them. A job followed by three hundred pages is so read once, not three hundred times.
    Raises ShuttingDown for shared reads when the process is ending.
    """
    queue = _queues.setdefault(asyncio.get_running_loop(), ReadQueue())
    if share_key is None:
        return await _run(queue, read, args, None)
    task = queue.waiting.get(share_key)
    if task is None:
        task = asyncio.create_task(_run(queue, read, args, share_key))
        task.add_done_callback(_consume_exception)
        queue.waiting[share_key] = task
    # A caller that is cancelled does not cancel the read of the others.
    result: T = await asyncio.shield(task)
    return result


async def _run(
    queue: ReadQueue, read: Callable[..., T], args: tuple[Any, ...], share_key: Hashable
) -> T:
    await queue.slots.acquire()
    queue.waiting.pop(share_key, None)
    duration = [0.0]
    try:
        if share_key is not None and listener().is_closing:
            raise ShuttingDown
        return await sync_to_async(_timed_read, thread_sensitive=False)(duration, read, args)
    finally:
        loop = asyncio.get_running_loop()
        loop.call_later(duration[0] * REST_FACTOR, queue.slots.release)


def _timed_read(duration: list[float], read: Callable[..., T], args: tuple[Any, ...]) -> T:
    """`duration[0]` is set to the seconds that the read took, also where it raises."""
    begin = time.monotonic()
    try:
        return read(*args)
    finally:
        _close()
        duration[0] = time.monotonic() - begin


def _consume_exception(task: asyncio.Task[Any]) -> None:
    """Without this, asyncio logs the failure of a read whose callers have all gone."""
    if not task.cancelled():
        task.exception()


def lifetime_seconds() -> float:
    """With jitter, so that streams do not all end at once."""
    return MAX_LIFETIME_SECONDS * random.uniform(0.8, 1.0)  # noqa: S311 - jitter, not a secret


def retry_directive(milliseconds: int = RETRY_MILLISECONDS) -> str:
    """How soon the browser reconnects."""
    return f"retry: {milliseconds}\n\n"


def sse_event(name: str, data: str = "", *, id: str = "") -> str:
    head = f"id: {id}\n" if id else ""
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"{head}event: {name}\n{lines}\n"
