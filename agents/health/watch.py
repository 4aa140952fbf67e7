"""Remembers what was heard and read of each GPU, and tells its health from both."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agents.facts.gpu_health import DriverEvent, HealthReadings
from agents.facts.gpus import GpuFacts
from agents.health.events import EventListener
from agents.health.slowdowns import slowdown_warning
from agents.health.verdict import (
    GpuEvent,
    assess,
    carry_forward,
    is_current,
    is_relevant,
    was_reset,
)
from agents.nvml.health import read_health

MAX_EVENTS = 64

log = logging.getLogger("agents.health")


def boot_seconds() -> float:
    """Seconds since the node started, also while it slept: a jump of the clock changes nothing."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """Every GPU of this node with its health, by index: also those that do not answer now, as they
    were last seen. `lost`: UUIDs of those that fell off the bus; `silent`: of those that the driver
    gave no answer for. `cautions`: a sentence for each that is slowed down."""

    gpus: tuple[GpuFacts, ...] = ()
    lost: frozenset[str] = frozenset()
    unresponsive: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class _Memory:
    facts: GpuFacts
    reads: HealthReadings = field(default_factory=HealthReadings)


class HealthWatch:
    """`changed` is called from the listening thread after each event, when it is remembered;
    `heard` with each event, also with those that count for nothing here."""

    def __init__(
        self, changed: Callable[[], None] = lambda: None, now: Callable[[], float] = boot_seconds
    ) -> None:
        self.on_change = changed
        self.on_event: Callable[[DriverEvent], None] = lambda _: None
        self._now = now
        self._lock = threading.Lock()
        self._memories: dict[str, _Memory] = {}
        self._events: dict[str, deque[GpuEvent]] = {}
        self._untold: deque[GpuEvent] = deque(maxlen=MAX_EVENTS)
        self._is_news = threading.Event()
        self._listener = EventListener(self.record)

    def start(self) -> None:
        self._listener.start()

    def stop(self) -> None:
        self._listener.stop()

    @property
    def has_news(self) -> bool:
        """Whether anything was heard since the last `judged`."""
        return self._is_news.is_set()

    def record(self, heard: DriverEvent | None) -> None:
        """Remember an event; None says only that something is to be looked at.

        What a program does wrong may come a thousand times a second: it is logged, and neither
        drives out what counts nor wakes anybody. `heard` is told of it all the same.
        """
        if heard is not None:
            self.on_event(heard)
            said = {"gpu": heard.gpu_uuid, "kind": heard.kind, "xid": heard.xid}
            if not is_relevant(heard.kind, heard.xid):
                log.info("gpu_event_ignored", extra=said)
                return
            log.warning("gpu_event", extra=said)
            self._remember(heard)
        self._is_news.set()
        self.on_change()

    def assess(self, gpus: list[GpuFacts]) -> NodeHealth:
        """`gpus` are those that answer. One that is gone without being lost was taken from the
        node, and is forgotten. Raises nothing: a driver's refusal is an answer about its GPU."""
        self._is_news.clear()
        with self._lock:
            for gpu in gpus:
                memory = self._memories.setdefault(gpu.uuid, _Memory(gpu))
                memory.facts = gpu
            for memory in list(self._memories.values()):
                self._look(memory)
            found = sorted(self._memories.values(), key=lambda m: (m.facts.index, m.facts.uuid))
            return NodeHealth(
                gpus=tuple(self._with_health(memory) for memory in found),
                lost=frozenset(m.facts.uuid for m in found if m.reads.is_lost),
                unresponsive=frozenset(m.facts.uuid for m in found if m.reads.driver_error),
                warnings=tuple(
                    f"GPU {m.facts.index} is slow: {says}."
                    for m in found
                    if (says := slowdown_warning(m.reads.clock_reasons))
                ),
            )

    def pending_events(self) -> list[GpuEvent]:
        """Events whose consequences for running work are not drawn yet; `drawn` takes them off."""
        with self._lock:
            return list(self._untold)

    def clear_pending(self, events: list[GpuEvent]) -> None:
        with self._lock:
            self._untold = deque(
                (e for e in self._untold if all(e is not other for other in events)), MAX_EVENTS
            )

    def _remember(self, heard: DriverEvent) -> None:
        event = GpuEvent(
            gpu_uuid=heard.gpu_uuid,
            kind=heard.kind,
            at=self._now(),
            xid=heard.xid,
            gpu_instance=heard.gpu_instance,
            compute_instance=heard.compute_instance,
        )
        with self._lock:
            self._events_of(event.gpu_uuid).append(event)
            self._untold.append(event)

    def _events_of(self, uuid: str) -> deque[GpuEvent]:
        return self._events.setdefault(uuid, deque(maxlen=MAX_EVENTS))

    def _look(self, memory: _Memory) -> None:
        uuid = memory.facts.uuid
        reads = read_health(memory.facts)
        if reads is None:
            del self._memories[uuid]
            self._events.pop(uuid, None)
            return
        if was_reset(memory.reads, reads):
            self._events_of(uuid).clear()
            memory.reads = HealthReadings()
            self._listener.renew()
            log.warning("gpu_recovered", extra={"gpu": uuid})
        elif memory.reads.driver_error and not reads.driver_error:
            self._listener.renew()
        memory.reads = carry_forward(memory.reads, reads)
        kept = [e for e in self._events_of(uuid) if is_current(e, memory.reads, self._now())]
        self._events[uuid] = deque(kept, MAX_EVENTS)

    def _with_health(self, memory: _Memory) -> GpuFacts:
        health = assess(self._events_of(memory.facts.uuid), memory.reads)
        return replace(memory.facts, healthy=health.healthy, health_reason=health.reason)
