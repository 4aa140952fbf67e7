"""Watches that no running replica writes more than its disk.

By walking through its folders, and asking the engine for what it wrote elsewhere: a limit of the
file system itself (a project quota) would have to be set up on each node. A walk takes time: a fast
writer gets beyond its limit until it is seen."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from agents.contract.documents import DesiredReplica
from agents.runtime.base import ContainerPhase, ContainerStatus, Runtime

# Between two looks at the same replica; and so many times as long as the looks took, which bounds
# what they cost of one CPU.
MIN_SECONDS, REST_FACTOR = 2.0, 20.0

log = logging.getLogger("agents.loop.disk")


class DiskLimits:
    """`default_mib`: the limit of replicas that requested no disk, 0 for none. `on_excess` is
    called from the watching thread."""

    def __init__(self, runtime: Runtime, default_mib: int, on_excess: Callable[[], None]) -> None:
        self._runtime = runtime
        self._default_mib = default_mib
        self._on_excess = on_excess
        self._limits: dict[str, int] = {}
        self._beyond: frozenset[str] = frozenset()
        self._unmeasured: frozenset[str] = frozenset()
        self._closed = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._watch, name="disk", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def beyond(
        self, desired: Iterable[DesiredReplica], containers: Mapping[str, ContainerStatus]
    ) -> frozenset[str]:
        """The replicas that were found to have more than their disk. From now on, those that run
        are watched."""
        limits = {r.id: (r.disk_mib or self._default_mib) << 20 for r in desired}
        running = (key for key, one in containers.items() if one.phase is ContainerPhase.RUNNING)
        self._limits = {key: limits[key] for key in running if limits.get(key)}
        return self._beyond

    def measure(self) -> None:
        """Each replica once. One that cannot be measured is taken to be as it was."""
        limits, used = self._limits, {}
        for key, limit in limits.items():
            try:
                used[key] = self._runtime.used_disk_bytes(key, limit)
            except Exception as error:
                if key not in self._unmeasured:
                    log.warning("disk_unmeasured", extra={"replica": key, "why": str(error)})
        self._unmeasured = frozenset(limits.keys() - used.keys())
        found = {key for key, size in used.items() if size > limits[key]}
        for key in found - self._beyond:
            log.warning("disk_full", extra={"replica": key, "limit_mib": limits[key] >> 20})
        has_more = bool(found - self._beyond)
        self._beyond = frozenset(found) | (self._beyond & self._unmeasured)
        if has_more:
            self._on_excess()

    def _watch(self) -> None:
        rest = MIN_SECONDS
        while not self._closed.wait(rest):
            began = time.monotonic()
            self.measure()
            rest = max(MIN_SECONDS, REST_FACTOR * (time.monotonic() - began))
