"""What is open at apps in this process. It ends when its caller may not reach the app any more."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager, suppress

from django.db import DatabaseError, InterfaceError

from portal.apps.access import AppAccess, Caller
from portal.apps.http_exchange import CallEnd
from portal.errors import Refused
from portal.live.listener import subscribe

# What is open is looked up this often, and an answer serves new calls for as long: together less
# than 5 s until a right that was taken away ends everything.
LOOK_SECONDS = 2.0
# How often a process that ends looks whether its last calls are over.
DRAIN_LOOK_SECONDS = 0.05
MAX_ANSWERS = 4_096
# Of one caller at one app, in each process.
MAX_OPEN = 1_000

log = logging.getLogger(__name__)

FindAll = Callable[[Collection[Caller]], Awaitable[dict[Caller, AppAccess]]]
FindOne = Callable[[], Awaitable[AppAccess | None]]


class TooManyCalls(Exception):
    """The caller has as many open as one may have."""


class OpenCalls:
    """The calls of one event loop, looked up together."""

    def __init__(self, find_all: FindAll, seconds: float = LOOK_SECONDS) -> None:
        self._find_all = find_all
        self._seconds = seconds
        self._open: dict[Caller, set[CallEnd]] = {}
        self._answers: dict[str, tuple[float, AppAccess]] = {}
        self._task: asyncio.Task[None] | None = None
        self.is_closing = False
        """The process shuts down: nothing new begins, and what ends from now on comes again."""

    def has_opened(self, key: str) -> bool:
        """Whether the secret behind `key` opened something here when it was last looked up."""
        return key in self._answers

    async def access_of(self, key: str, find: FindOne) -> AppAccess | None:
        """What the secret behind `key`, a digest, opens: as of a moment ago, or as `find` says."""
        begin = time.monotonic()
        at, access = self._answers.get(key, (0.0, None))
        if access is not None and begin - at < self._seconds:
            return access
        try:
            access = await find()
        except Refused:
            self._answers.pop(key, None)
            raise
        self._answers.pop(key, None)
        if access is not None:
            if len(self._answers) >= MAX_ANSWERS:
                self._answers.clear()
            self._answers[key] = (begin, access)
        return access

    @contextmanager
    def opened(self, caller: Caller, *, is_socket: bool) -> Iterator[CallEnd]:
        """While the block runs, the event is set as soon as the caller has to go. Raises
        TooManyCalls."""
        end = CallEnd(is_socket=is_socket)
        ends = self._open.setdefault(caller, set())
        if len(ends) >= MAX_OPEN:
            raise TooManyCalls
        ends.add(end)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        try:
            yield end
        finally:
            ends.discard(end)
            if not ends:
                self._open.pop(caller, None)

    async def finish(self, seconds: float) -> None:
        """The process will shut down: WebSockets end, requests have so many seconds to do so."""
        self._end_for_restart(sockets_only=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._open:
                    await asyncio.sleep(DRAIN_LOOK_SECONDS)

    def _end_for_restart(self, *, sockets_only: bool) -> None:
        """Callers connect again, elsewhere."""
        self.is_closing = True
        for ends in self._open.values():
            for end in ends:
                if end.is_socket or not sockets_only:
                    end.is_restart = True
                    end.set()

    async def _watch(self) -> None:
        """Runs while anything is open."""
        with subscribe() as bell:
            while self._open:
                await bell.pause(self._seconds)
                if bell.is_closing:
                    self._end_for_restart(sockets_only=False)
                    return
                asked = list(self._open)
                try:
                    live = await self._find_all(asked)
                except (DatabaseError, InterfaceError) as error:
                    # Nobody can take a right away meanwhile, either.
                    log.warning("open apps are not looked up: %s", error)
                    continue
                except Exception:
                    log.exception("open apps cannot be looked up, so they end")
                    live = {}
                self._end(caller for caller in asked if caller not in live)

    def _end(self, callers: Collection[Caller] | Iterator[Caller]) -> None:
        for caller in tuple(callers):
            for end in self._open.get(caller, ()):
                end.set()
