"""Who may hold an event stream open, and until when: it ends with its session, and a user has a
limited number of streams in each process."""

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from django.conf import settings

from portal.accounts.sessions import user_bell
from portal.live.listener import Bell, subscribe

# Before an event is sent, the session is looked up if its last look is older than this.
CHECK_SECONDS = 5.0
# When a refused page asks again.
RETRY_SECONDS = 30

T = TypeVar("T")


class TooManyStreams(Exception):
    """The user has as many streams open as one may have."""


@dataclass(frozen=True, slots=True)
class StreamOwner:
    """Whose stream it is, and the browser session that it belongs to; "" for an API token, which
    every read of such a stream looks up by itself."""

    user_pk: int
    session_key: str = ""


class StreamPlace:
    """One of the streams that a user may have open."""

    def __init__(self, user_pk: int) -> None:
        """Raises TooManyStreams."""
        with _lock:
            self._places = _places[user_pk]
            if len(self._places) >= settings.PLATFORM.max_streams:
                raise TooManyStreams
            self._places.add(self)

    def release(self) -> None:
        """May be called more than once. Takes no lock: the garbage collector calls it as well, also
        in a thread that is taking a place."""
        self._places.discard(self)


_lock = threading.Lock()
# By user. A set stays when its last place is released; there is one for each user at most.
_places: defaultdict[int, set[StreamPlace]] = defaultdict(set)


def open_stream_count() -> int:
    """In this process, of all users."""
    with _lock:
        return sum(len(places) for places in _places.values())


@dataclass(slots=True, weakref_slot=True)
class SessionChecks:
    """The looks at one session, shared by its streams in this process: ten idle pages of a browser
    cost one look where each would make its own."""

    checked_at: float = field(default_factory=time.monotonic)
    """When the session was last known to live, by the monotonic clock."""

    async def passes(self, is_live: Callable[[], Awaitable[bool]], max_age: float) -> bool:
        """Whether the session lives, as of `max_age` seconds ago or later."""
        begin = time.monotonic()
        if begin - self.checked_at < max_age:
            return True
        if not await is_live():
            return False
        self.checked_at = max(self.checked_at, begin)
        return True


# By session; the streams keep them.
_checks: WeakValueDictionary[StreamOwner, SessionChecks] = WeakValueDictionary()


async def while_signed_in(
    events: AsyncIterator[T], owner: StreamOwner, is_live: Callable[[], Awaitable[bool]]
) -> AsyncIterator[T]:
    """The events until the session ends: at once if its bell is heard, at the latest before the
    next event. A browser that is still signed in, by a new session, connects again by itself."""
    checks = _checks.setdefault(owner, SessionChecks())
    async with aclosing(events) as source:  # type: ignore[type-var]  # all are generators
        with subscribe(user_bell(owner.user_pk)) as bell:
            while True:
                event = asyncio.ensure_future(anext(source))
                try:
                    while not await _is_first(event, bell):
                        if not await checks.passes(is_live, max_age=0):
                            return
                    if not await checks.passes(is_live, CHECK_SECONDS):
                        return
                    yield event.result()
                except StopAsyncIteration:
                    return
                finally:
                    await _end(event)


async def _is_first(event: "asyncio.Future[T]", bell: Bell) -> bool:
    """Wait for the event or the bell; False if the bell rang and there is no event yet."""
    if bell.is_ended:
        # The process shuts down: the stream ends by itself.
        await asyncio.wait([event])
        return True
    ring = asyncio.ensure_future(bell.wait(3_600))
    try:
        both: list[asyncio.Future[Any]] = [event, ring]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        return event.done()
    finally:
        await _end(ring)


async def _end(task: "asyncio.Future[T]") -> None:
    """Cancel a task that is not over, and wait until it is: a generator runs once at a time."""
    if task.done():
        return
    task.cancel()
    with suppress(asyncio.CancelledError, StopAsyncIteration):
        await task
