"""Keeps the events and readings of each GPU and assesses its health from both."""

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Container
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
from agents.host.machine_ids import boot_seconds
from agents.nvml.health import read_health
from agents.nvml.known_gpus import KnownGpus

MAX_EVENTS = 64

log = logging.getLogger("agents.health")


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """The GPUs of this node with their health."""

    # By index, with the last known facts of GPUs that do not respond.
    gpus: tuple[GpuFacts, ...] = ()
    # UUIDs of GPUs that fell off the bus.
    lost: frozenset[str] = frozenset()
    # UUIDs of GPUs for which the driver does not respond.
    unresponsive: frozenset[str] = frozenset()
    # One sentence for each GPU that is slowed down.
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class _Memory:
    facts: GpuFacts
    reads: HealthReadings = field(default_factory=HealthReadings)


class HealthWatch:
    """Health of the GPUs over time. In the listener's thread, `on_event` is called with every event
    and `on_change` after each event that counts."""

    def __init__(
        self, changed: Callable[[], None] = lambda: None, now: Callable[[], float] = boot_seconds
    ) -> None:
        self.on_change = changed
        self.on_event: Callable[[DriverEvent], None] = lambda _: None
        self._now = now
        self._lock = threading.Lock()
        self._memories: dict[str, _Memory] = {}
        self._events: dict[str, deque[GpuEvent]] = {}
        self._pending: deque[GpuEvent] = deque(maxlen=MAX_EVENTS)
        self._is_news = threading.Event()
        self._listener = EventListener(self.record)

    def start(self) -> None:
        self._listener.start()

    def stop(self) -> None:
        self._listener.stop()

    def without_handles(self) -> contextlib.AbstractContextManager[None]:
        """During the block the driver's events are not listened to. Raises GateBusy."""
        return self._listener.without_handles()

    @property
    def has_news(self) -> bool:
        """Whether an event arrived since the last `assess`."""
        return self._is_news.is_set()

    def record(self, event: DriverEvent | None) -> None:
        """Keep an event; None only requests a new assessment.

        A faulty program can cause a thousand events a second. They are logged and passed to
        `on_event`, but neither displace events that count nor wake the loop.
        """
        if event is not None:
            self.on_event(event)
            details = {"gpu": event.gpu_uuid, "kind": event.kind, "xid": event.xid}
            if not is_relevant(event.kind, event.xid):
                log.info("gpu_event_ignored", extra=details)
                return
            log.warning("gpu_event", extra=details)
            self._remember(event)
        self._is_news.set()
        self.on_change()

    def assess(
        self,
        gpus: list[GpuFacts],
        known_gpus: KnownGpus | None = None,
        changing: Container[str] = (),
    ) -> NodeHealth:
        """`gpus` are those that respond. A GPU that is gone without being lost was removed from the
        node and is dropped. Raises nothing: an error of the driver is a reading too.

        `known_gpus`: the GPUs of the driver's session. `changing`: UUIDs of GPUs that must not be
        read now; their health stays as it was."""
        self._is_news.clear()
        with self._lock:
            for gpu in gpus:
                memory = self._memories.setdefault(gpu.uuid, _Memory(gpu))
                memory.facts = gpu
            for memory in list(self._memories.values()):
                if memory.facts.uuid not in changing:
                    self._update(memory, known_gpus)
            return self._node_health()

    def replace_facts(self, gpu: GpuFacts) -> NodeHealth:
        """With new facts of one GPU, whose health stays as last assessed."""
        with self._lock:
            if gpu.uuid in self._memories:
                self._memories[gpu.uuid].facts = gpu
            return self._node_health()

    def _node_health(self) -> NodeHealth:
        found = sorted(self._memories.values(), key=lambda m: (m.facts.index, m.facts.uuid))
        return NodeHealth(
            gpus=tuple(self._with_health(memory) for memory in found),
            lost=frozenset(m.facts.uuid for m in found if m.reads.is_lost),
            unresponsive=frozenset(m.facts.uuid for m in found if m.reads.driver_error),
            warnings=tuple(
                f"GPU {m.facts.index} is slow: {text}."
                for m in found
                if (text := slowdown_warning(m.reads.clock_reasons))
            ),
        )

    def pending_events(self) -> list[GpuEvent]:
        """Events that were not applied to replicas yet, until `clear_pending`."""
        with self._lock:
            return list(self._pending)

    def clear_pending(self, events: list[GpuEvent]) -> None:
        with self._lock:
            self._pending = deque(
                (e for e in self._pending if all(e is not other for other in events)), MAX_EVENTS
            )

    def _remember(self, driver_event: DriverEvent) -> None:
        event = GpuEvent(
            gpu_uuid=driver_event.gpu_uuid,
            kind=driver_event.kind,
            at=self._now(),
            xid=driver_event.xid,
            gpu_instance=driver_event.gpu_instance,
            compute_instance=driver_event.compute_instance,
        )
        with self._lock:
            self._events_of(event.gpu_uuid).append(event)
            self._pending.append(event)

    def _events_of(self, uuid: str) -> deque[GpuEvent]:
        return self._events.setdefault(uuid, deque(maxlen=MAX_EVENTS))

    def _update(self, memory: _Memory, known_gpus: KnownGpus | None) -> None:
        uuid = memory.facts.uuid
        reads = read_health(memory.facts, known_gpus)
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
