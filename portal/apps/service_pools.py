"""The copies of services as one web process sees them: which take calls, and which has the fewest.

A call takes a copy for as long as it lasts, and waits for one where none is ready. Calls of a
service with a canary are divided between the two first. While services are in use, and a minute
longer, their copies are read again every second and at every ring, and what there is to do is
reported, from which the number of copies follows.
"""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from django.db import DatabaseError

from portal.job_services.durations import duration_counts
from portal.job_services.loads import CallCounts
from portal.job_services.selectors import ServiceRoute
from portal.live.listener import Bell, subscribe
from portal.tunnel.streams import Target

LOOK_SECONDS = 1.0
# Calls that wait for a copy: of one service in each process, and for how long.
MAX_WAITING = 100
WAIT_SECONDS = 120.0
# A copy that could not be reached gets no calls for this long, whatever its last health check said.
AVOID_SECONDS = 2.0
# A service without calls for so long is forgotten.
IDLE_SECONDS = 60.0
# Durations are counted over this time, of this many calls at most.
WINDOW_SECONDS, MAX_DURATIONS = 60.0, 20_000

ReadRoutes = Callable[[Collection[int]], Awaitable[Mapping[int, ServiceRoute]]]
Report = Callable[[Mapping[int, CallCounts]], Awaitable[None]]

log = logging.getLogger(__name__)


class NoCopyReady(Exception):
    """None was in time, or too many calls wait for one."""


@dataclass(slots=True)
class ServicePool:
    """The copies of one service, by the keys of their jobs."""

    targets: dict[int, Target] = field(default_factory=dict)
    open_calls: Counter[int] = field(default_factory=Counter)
    waiting: int = 0
    used_at: float = field(default_factory=time.monotonic)
    avoided: dict[int, float] = field(default_factory=dict)
    """Until when."""
    last_calls: dict[int, float] = field(default_factory=dict)
    durations: deque[tuple[float, float]] = field(
        default_factory=lambda: deque(maxlen=MAX_DURATIONS)
    )
    """When a call ended, and how long it took."""
    errors: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_DURATIONS))
    """When a call failed."""
    canary: int = 0
    """The service that gets some of the calls; 0: none does."""
    canary_percent: int = 0
    change: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, and replaced, when there may be another copy to choose."""

    def choose(self) -> int | None:
        """The copy with the fewest calls; of equals, the one whose last call is longest ago."""
        now = time.monotonic()
        keys = [job for job in self.targets if self.avoided.get(job, 0.0) <= now]
        if not keys:
            return None
        return min(keys, key=lambda job: (self.open_calls[job], self.last_calls.get(job, 0.0)))

    def avoid(self, job: int) -> None:
        """It could not be reached just now."""
        self.avoided[job] = time.monotonic() + AVOID_SECONDS

    @contextmanager
    def call(self, job: int) -> Iterator[None]:
        """While the block runs, the copy has one more call."""
        begun = time.monotonic()
        self.open_calls[job] += 1
        self.last_calls[job] = begun
        try:
            yield
        finally:
            self.open_calls[job] -= 1
            if not self.open_calls[job]:
                del self.open_calls[job]
            self.used_at = time.monotonic()

    def note_duration(self, seconds: float) -> None:
        """Of a call that was answered."""
        self.durations.append((time.monotonic(), seconds))

    def note_error(self) -> None:
        """A call was answered with a status of 500 to 599, or not at all."""
        self.errors.append(time.monotonic())

    def is_idle(self, now: float) -> bool:
        return not self.waiting and not self.open_calls and now - self.used_at > IDLE_SECONDS

    def renew(self, route: ServiceRoute) -> None:
        self.targets = dict(route.targets)
        self.canary, self.canary_percent = route.canary, route.canary_percent
        for known in (self.avoided, self.last_calls):
            for job in known.keys() - route.targets.keys():
                del known[job]
        self.announce()

    def announce(self) -> None:
        self.change.set()
        self.change = asyncio.Event()

    def counts(self, now: float) -> CallCounts:
        while self.durations and now - self.durations[0][0] > WINDOW_SECONDS:
            self.durations.popleft()
        while self.errors and now - self.errors[0] > WINDOW_SECONDS:
            self.errors.popleft()
        counts = duration_counts(seconds for _, seconds in self.durations)
        return CallCounts(self.waiting, dict(self.open_calls), counts, len(self.errors))


@dataclass(frozen=True, slots=True)
class ChosenCopy:
    """The copy that is to get a call."""

    pool: ServicePool
    """Of the service that was called, or of its canary."""
    job: int
    target: Target


def choose_copy(service: ServicePool, canary: ServicePool | None, roll: int) -> ChosenCopy | None:
    """The version first, then its copy with the fewest calls.

    `roll`, of 0 to 99, is the canary's if it is below its percentage. If none of its copies takes
    calls, the service gets the call; never the other way round, as a canary is no spare.
    """
    pools = [service]
    if canary is not None and roll < service.canary_percent:
        pools.insert(0, canary)
    for pool in pools:
        if (job := pool.choose()) is not None:
            return ChosenCopy(pool, job, pool.targets[job])
    return None


class ServicePools:
    """Those of one event loop."""

    def __init__(
        self, read_routes: ReadRoutes, report: Report, *, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        self._read_routes, self._report = read_routes, report
        self._wait_seconds = wait_seconds
        self._pools: dict[int, ServicePool] = {}
        self._bell: Bell | None = None
        self._task: asyncio.Task[None] | None = None

    def pool(self, service: int) -> ServicePool:
        """Kept up to date from now on."""
        found = self._pools.get(service)
        if found is None:
            found = self._pools[service] = ServicePool()
            self._look_now()
        found.used_at = time.monotonic()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._keep())
        return found

    async def copy_for_call(self, pool: ServicePool, roll: int) -> ChosenCopy:
        """The copy to call, as soon as there is one. `roll` is a number of 0 to 99 that decides
        about the canary. Raises NoCopyReady."""
        if (copy := self._choose(pool, roll)) is not None:
            return copy
        if pool.waiting >= MAX_WAITING:
            raise NoCopyReady
        pool.waiting += 1
        self._look_now()
        try:
            async with asyncio.timeout(self._wait_seconds):
                while (copy := self._choose(pool, roll)) is None:
                    # Also one that is avoided may be tried again after a while.
                    with suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_SECONDS):
                            await pool.change.wait()
                return copy
        except TimeoutError:
            raise NoCopyReady from None
        finally:
            pool.waiting -= 1

    def _choose(self, pool: ServicePool, roll: int) -> ChosenCopy | None:
        return choose_copy(pool, self._pools.get(pool.canary), roll)

    def _look_now(self) -> None:
        if self._bell is not None:
            self._bell.wake()

    async def _keep(self) -> None:
        """Runs while anything is called."""
        reported: dict[int, CallCounts] = {}
        with subscribe("service:*") as self._bell:
            try:
                while self._pools and not self._bell.is_closing:
                    now = time.monotonic()
                    for service in [key for key, pool in self._pools.items() if pool.is_idle(now)]:
                        del self._pools[service]
                        reported.pop(service, None)
                    await self._renew(reported)
                    await self._bell.wait(LOOK_SECONDS)
            finally:
                self._bell = None

    def _take(self, routes: Mapping[int, ServiceRoute]) -> None:
        """A canary is in use for as long as its service is."""
        for service, route in routes.items():
            self._pools.setdefault(service, ServicePool()).renew(route)
        for pool in self._pools.values():
            if canary := self._pools.get(pool.canary):
                canary.used_at = max(canary.used_at, pool.used_at)

    async def _renew(self, reported: dict[int, CallCounts]) -> None:
        """Read the copies, then say how busy they are. What did not change is not said again,
        unless it is something."""
        now = time.monotonic()
        try:
            self._take(await self._read_routes(tuple(self._pools)))
            counts = {service: pool.counts(now) for service, pool in self._pools.items()}
            news = {
                service: each
                for service, each in counts.items()
                if each.waiting or each.open_calls or reported.get(service) != each
            }
            if news:
                await self._report(news)
                reported.update(news)
        except DatabaseError as error:
            log.warning("copies of services are not read: %s", error)
        except Exception:
            # A call must not wait for ever because of it.
            log.exception("copies of services cannot be read")
