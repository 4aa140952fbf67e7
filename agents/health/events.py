"""Listens to the driver's events in a separate thread."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator

from agents.facts.gpu_health import DriverEvent
from agents.nvml.errors import NvmlFailure
from agents.nvml.gate import CLOSE_SECONDS, GateBusy
from agents.nvml.health import EventSet

# The timeout of one wait, and so the delay of `stop` and `renew`.
WAIT_MILLISECONDS = 500
# The pause after a failure, doubled after each further one, so that a failing driver is not called
# in a tight loop.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0

log = logging.getLogger("agents.health")


class EventListener:
    """`on_event` is called in the listener's thread: with an event, or with None after waiting
    failed (a GPU was lost), when the health of all GPUs has to be read again."""

    def __init__(self, on_event: Callable[[DriverEvent | None], None]) -> None:
        self._on_event = on_event
        self._is_stopping = False
        # Ends the current event set, for a new one or for good.
        self._renewal = threading.Event()
        self._ready = threading.Event()
        # Cleared while no event set may exist; then the thread sets `_is_idle`.
        self._may_listen = threading.Event()
        self._may_listen.set()
        self._is_idle = threading.Event()
        self._pause = FIRST_PAUSE_SECONDS
        self._thread = threading.Thread(target=self._run, name="nvml-events", daemon=True)

    def start(self) -> None:
        """Returns when the events are registered, or when that has failed once."""
        self._thread.start()
        self._ready.wait()

    def renew(self) -> None:
        """Register again for all GPUs that respond, after one came back."""
        self._renewal.set()

    @contextlib.contextmanager
    def without_handles(self) -> Iterator[None]:
        """No event set exists during the block; events of that time are lost. Raises GateBusy."""
        if not self._thread.is_alive():
            yield
            return
        self._is_idle.clear()
        self._may_listen.clear()
        self._renewal.set()
        try:
            if not self._is_idle.wait(CLOSE_SECONDS):
                raise GateBusy
            yield
        finally:
            self._may_listen.set()

    def stop(self) -> None:
        """Ends the thread and frees its event set. Call it before NVML is shut down."""
        self._is_stopping = True
        self._may_listen.set()
        self._renewal.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._is_stopping:
            self._renewal.clear()
            if not self._may_listen.is_set():
                self._is_idle.set()
                self._may_listen.wait()
                continue
            try:
                self._listen()
            except NvmlFailure as failure:
                self._failed(failure)
            except Exception as error:
                log.exception("listening_failed")
                self._failed(error)

    def _listen(self) -> None:
        """Listens with one event set until `renew` or `stop`. Raises NvmlFailure."""
        events = EventSet()
        self._ready.set()
        try:
            while not (self._is_stopping or self._renewal.is_set()):
                if not events.gpus:
                    self._renewal.wait(LONGEST_PAUSE_SECONDS)
                    return
                event = events.wait(WAIT_MILLISECONDS)
                self._pause = FIRST_PAUSE_SECONDS
                if event is not None:
                    self._notify(event)
        finally:
            events.close()

    def _failed(self, error: Exception) -> None:
        """Reports the first failure, and the next one only after listening worked in between."""
        self._ready.set()
        if self._pause == FIRST_PAUSE_SECONDS:
            log.warning("events_failed", extra={"why": str(error)})
            self._notify(None)
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        if not self._is_stopping:
            self._renewal.wait(pause)

    def _notify(self, event: DriverEvent | None) -> None:
        """An error in the callback must not end the thread."""
        try:
            self._on_event(event)
        except Exception:
            log.exception("event_not_taken")
