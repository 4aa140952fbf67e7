"""One listener per event loop (one per web process), which wakes the waiters for each key.

    with subscribe("node:…") as bell:      # registered before the caller reads the database
        row = await read()
        await bell.wait(20)                # True: rung or woken, False: timed out

A wake may be spurious (all waiters are woken after a lost connection): always read again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from django.conf import settings

from portal.live import sockets
from portal.live.redis_listener import receive_redis_rings


class Bell:
    """One waiter. While `is_closing`, the process shuts down: respond and end."""

    __slots__ = ("_closing", "_rung", "is_superseded", "keys")

    def __init__(self) -> None:
        self._rung = asyncio.Event()
        self._closing = asyncio.Event()
        self.is_superseded = False
        self.keys: frozenset[str] = frozenset()

    @property
    def is_closing(self) -> bool:
        return self._closing.is_set()

    @property
    def is_ended(self) -> bool:
        return self.is_closing or self.is_superseded

    @property
    def is_rung(self) -> bool:
        return self._rung.is_set()

    async def wait(self, seconds: float) -> bool:
        """True once rung, also if that was before this wait; False after `seconds`."""
        if self.is_ended:
            return True
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True

    async def pause(self, seconds: float) -> None:
        """Wait `seconds` whatever rings; less if the process shuts down."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()

    def wake(self) -> None:
        self._rung.set()

    def close(self) -> None:
        self._closing.set()
        self.wake()

    def supersede(self) -> None:
        """End this wait because a newer one took its place."""
        self.is_superseded = True
        self.wake()


class Listener:
    """Receives rings for one event loop."""

    def __init__(self) -> None:
        self._bells: dict[str, set[Bell]] = defaultdict(set)
        # Every bell: one without keys must hear of a shutdown as well.
        self._open: set[Bell] = set()
        self._is_closing = False
        self._loop = asyncio.get_running_loop()
        self._task = self._start()

    @contextmanager
    def subscribe(self, *keys: str) -> Iterator[Bell]:
        bell = Bell()
        if self._is_closing:
            bell.close()
        self._open.add(bell)
        self.set_keys(bell, keys)
        try:
            yield bell
        finally:
            self.set_keys(bell, ())
            self._open.discard(bell)

    def set_keys(self, bell: Bell, keys: Iterable[str]) -> None:
        """Let the bell ring for these keys from now on, and for no others."""
        new_keys = frozenset(keys)
        for key in bell.keys - new_keys:
            self._forget(key, bell)
        for key in new_keys:
            self._bells[key].add(bell)
        bell.keys = new_keys

    @property
    def is_closing(self) -> bool:
        return self._is_closing

    def keys(self) -> set[str]:
        """The keys that are waited for."""
        return set(self._bells)

    def fan_out(self, keys: Iterable[str]) -> None:
        """Wake the waiters for a key, and those for all keys of its kind."""
        for key in keys:
            for name in (key, wildcard_key(key)):
                for bell in tuple(self._bells.get(name, ())):
                    bell.wake()

    def wake_all(self) -> None:
        self.fan_out(tuple(self._bells))

    def drain(self) -> None:
        """Tell all waiters, present and future, that the process shuts down."""
        self._is_closing = True
        for bell in tuple(self._open):
            bell.close()

    def drain_soon(self) -> None:
        """`drain`, from a signal handler or another thread."""
        self._loop.call_soon_threadsafe(self.drain)

    async def close(self) -> None:
        self.drain()
        self._task.cancel()
        await asyncio.wait([self._task])

    def _forget(self, key: str, bell: Bell) -> None:
        self._bells[key].discard(bell)
        if not self._bells[key]:
            del self._bells[key]

    def _start(self) -> asyncio.Task[None]:
        """Start the receiving task. A loop that ends cancels its tasks, so nothing stays open."""
        platform = settings.PLATFORM
        if platform.redis_url:
            task = self._loop.create_task(
                receive_redis_rings(platform.redis_url, self.fan_out, self.wake_all)
            )
        else:
            # Bound at once: a ring before the task's first step waits in the socket.
            receiver, path = sockets.open_socket(sockets.bell_folder(platform.var))
            task = self._loop.create_task(sockets.receive_rings(receiver, self.fan_out))
            task.add_done_callback(lambda _: sockets.close_socket(receiver, path))
        task.add_done_callback(lambda _: _listeners.pop(self._loop, None))
        return task


def wildcard_key(key: str) -> str:
    """The key that stands for all keys of a kind: "job:*" for "job:12"."""
    return key.partition(":")[0] + ":*"


_listeners: dict[asyncio.AbstractEventLoop, Listener] = {}


def listener() -> Listener:
    """The listener of the running loop, started at first use."""
    loop = asyncio.get_running_loop()
    if loop not in _listeners:
        _listeners[loop] = Listener()
    return _listeners[loop]


def subscribe(*keys: str) -> AbstractContextManager[Bell]:
    """Register for rings of any of `keys`. Read the database inside the block, not before."""
    return listener().subscribe(*keys)


async def bell_ended(bell: Bell) -> None:
    """Wait until the process shuts down, or a newer wait took this one's place."""
    while not bell.is_ended:
        await bell.wait(3_600)


async def wait(key: str, timeout: float) -> bool:
    """Wait once. Use `subscribe` if the database is read."""
    with subscribe(key) as bell:
        return await bell.wait(timeout)
