"""Looks at the sensors at a bounded rate, in a thread of its own, and keeps the last look.

A driver that hangs keeps that thread and nothing else: whoever asks gets the last look, and its
age.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from agents.contract.telemetry import GpuSample
from agents.nvml.errors import NvmlFailure
from agents.nvml.telemetry import Sensors

# A look costs tens of calls of the driver per GPU: oftener would be felt.
MIN_SECONDS = 1.0
# How long an end waits for a look that is going on. After that the thread is left behind.
PATIENCE_SECONDS = 2.0

log = logging.getLogger("agents.telemetry")


class SensorReader(Protocol):
    def sample(self) -> tuple[GpuSample, ...]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SensorReading:
    """`taken_at` in seconds of the monotonic clock. `number` grows with each look; 0: none yet."""

    number: int = 0
    taken_at: float = 0.0
    samples: tuple[GpuSample, ...] = ()


class Sampler:
    """`senses` is called in the sampler's thread, and again after a driver that refused whole."""

    def __init__(
        self,
        every_seconds: float,
        senses: Callable[[], SensorReader] = Sensors,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.every_seconds = max(MIN_SECONDS, every_seconds)
        self._make = senses
        self._now = now
        self._last = SensorReading()
        self._failures = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    @property
    def last(self) -> SensorReading:
        """The newest look, which may be old: see its age."""
        return self._last

    @property
    def failures(self) -> int:
        """Looks that the driver refused whole, since the start."""
        return self._failures

    def age(self, reading: SensorReading) -> float:
        return max(0.0, self._now() - reading.taken_at)

    def start(self) -> None:
        """Returns at once: the first look is taken in the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Waits a moment for the look that is going on, never for a driver that hangs."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(PATIENCE_SECONDS)

    def _run(self) -> None:
        """The pause comes between looks, so a slow driver is asked less often, never in a row."""
        senses: SensorReader | None = None
        while not self._stop.is_set():
            try:
                senses = senses or self._make()
                self.sample(senses)
            except Exception as error:
                self._failures += 1
                self._report(error)
                self._end(senses)
                senses = None
            self._stop.wait(self.every_seconds)
        self._end(senses)

    def sample(self, senses: SensorReader) -> None:
        samples = senses.sample()
        self._last = SensorReading(self._last.number + 1, self._now(), samples)

    def _report(self, error: Exception) -> None:
        if isinstance(error, NvmlFailure):
            log.warning("telemetry_failed", extra={"why": str(error), "code": error.code})
        else:
            log.error("telemetry_failed", exc_info=error)

    def _end(self, senses: SensorReader | None) -> None:
        if senses is None:
            return
        try:
            senses.close()
        except NvmlFailure as failure:
            log.info("telemetry_not_closed", extra={"why": str(failure)})
