"""Listens to the driver's events in a thread of its own, and says each one once."""

import logging
import threading
from collections.abc import Callable

from agents.facts.gpu_health import DriverEvent
from agents.nvml.errors import NvmlFailure
from agents.nvml.health import EventSet

# How long one wait may take; `stop` and `renew` are heard after at most this.
WAIT_MILLISECONDS = 500
# After a failure, twice as long after each further one: a driver in trouble is not asked in a tight
# loop, and one that has no events is hardly asked at all.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0

log = logging.getLogger("agents.health")


class EventListener:
    """`heard` is called in the listener's thread: with an event, or with None after the driver
    refused to wait (a GPU was lost), when everything is to be looked at again."""

    def __init__(self, heard: Callable[[DriverEvent | None], None]) -> None:
        self._heard = heard
        self._is_stopping = False
        # What is listened to now is to be given up: for a new set, or for good.
        self._give_up = threading.Event()
        self._ready = threading.Event()
        self._pause = FIRST_PAUSE_SECONDS
        self._thread = threading.Thread(target=self._run, name="nvml-events", daemon=True)

    def start(self) -> None:
        """Returns when the GPUs are listened to, or when the driver has refused that once."""
        self._thread.start()
        self._ready.wait()

    def renew(self) -> None:
        """Listen anew, to all GPUs that answer: one came back, and its registration is gone."""
        self._give_up.set()

    def stop(self) -> None:
        """Ends the thread and frees its event set. Before NVML is shut down."""
        self._is_stopping = True
        self._give_up.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._is_stopping:
            self._give_up.clear()
            try:
                self._listen()
            except NvmlFailure as failure:
                self._failed(failure)
            except Exception as error:
                log.exception("listening_failed")
                self._failed(error)

    def _listen(self) -> None:
        """With one event set, until it is given up. Raises NvmlFailure."""
        events = EventSet()
        self._ready.set()
        try:
            while not (self._is_stopping or self._give_up.is_set()):
                if not events.gpus:
                    self._give_up.wait(LONGEST_PAUSE_SECONDS)
                    return
                event = events.wait(WAIT_MILLISECONDS)
                self._pause = FIRST_PAUSE_SECONDS
                if event is not None:
                    self._say(event)
        finally:
            events.close()

    def _failed(self, error: Exception) -> None:
        """Told once, then again only after listening worked in between."""
        self._ready.set()
        if self._pause == FIRST_PAUSE_SECONDS:
            log.warning("events_failed", extra={"why": str(error)})
            self._say(None)
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        if not self._is_stopping:
            self._give_up.wait(pause)

    def _say(self, event: DriverEvent | None) -> None:
        """An error of who listens must not end the listening."""
        try:
            self._heard(event)
        except Exception:
            log.exception("event_not_taken")
