"""Reads the sensors at a bounded rate in a separate thread, and keeps the latest reading.

A driver that hangs blocks only that thread; callers get the latest reading and its age.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from agents.contract.telemetry import GpuSample
from agents.nvml.errors import NvmlFailure
from agents.nvml.gate import CLOSE_SECONDS, GateBusy
from agents.nvml.telemetry import Sensors

# A reading costs tens of driver calls per GPU; reading more often would slow jobs down.
MIN_SECONDS = 1.0
# How long `stop` waits for a reading in progress. After that the thread is abandoned.
PATIENCE_SECONDS = 2.0

log = logging.getLogger("agents.telemetry")


class SensorReader(Protocol):
    def sample(self) -> tuple[GpuSample, ...]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SensorReading:
    """A sample of every GPU."""

    # Grows with each reading; 0: none yet.
    number: int = 0
    # In seconds of the monotonic clock.
    taken_at: float = 0.0
    samples: tuple[GpuSample, ...] = ()


class Sampler:
    """`sensors` opens the sensors in the sampler's thread, and again after a reading failed."""

    def __init__(
        self,
        every_seconds: float,
        sensors: Callable[[], SensorReader] = Sensors,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.every_seconds = max(MIN_SECONDS, every_seconds)
        self._open = sensors
        self._now = now
        self._last = SensorReading()
        self._failures = 0
        self._reader: SensorReader | None = None
        self._reading = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    @property
    def last(self) -> SensorReading:
        """The latest reading, which may be old: see `age`."""
        return self._last

    @property
    def failures(self) -> int:
        """Readings that failed as a whole, since the start."""
        return self._failures

    def age(self, reading: SensorReading) -> float:
        return max(0.0, self._now() - reading.taken_at)

    def start(self) -> None:
        """Returns at once; the first reading happens in the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Waits briefly for a reading in progress, but never for a driver that hangs."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(PATIENCE_SECONDS)

    @contextlib.contextmanager
    def without_handles(self) -> Iterator[None]:
        """The sensors are closed during the block and nothing is read. Raises GateBusy if a reading
        does not end."""
        if not self._reading.acquire(timeout=CLOSE_SECONDS):
            raise GateBusy
        try:
            self._close_reader()
            yield
        finally:
            self._reading.release()

    def _run(self) -> None:
        """Pauses after each reading, so a slow driver is called less often, never back to back."""
        while not self._stop.is_set():
            with self._reading:
                self._read()
            self._stop.wait(self.every_seconds)
        with self._reading:
            self._close_reader()

    def _read(self) -> None:
        try:
            self._reader = self._reader or self._open()
            self.sample(self._reader)
        except Exception as error:
            self._failures += 1
            self._report(error)
            self._close_reader()

    def sample(self, reader: SensorReader) -> None:
        samples = reader.sample()
        self._last = SensorReading(self._last.number + 1, self._now(), samples)

    def _report(self, error: Exception) -> None:
        if isinstance(error, NvmlFailure):
            log.warning("telemetry_failed", extra={"why": str(error), "code": error.code})
        else:
            log.error("telemetry_failed", exc_info=error)

    def _close_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is None:
            return
        try:
            reader.close()
        except NvmlFailure as failure:
            log.info("telemetry_not_closed", extra={"why": str(failure)})
