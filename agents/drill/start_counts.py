"""How often an engine started a node's containers, counted from the engine's events."""

import threading
import time
from collections import Counter
from typing import Any

from agents.runtime.docker_engine import connect_engine
from agents.runtime.docker_recipe import LABEL

EVENT_SECONDS = 30.0


class StartCounter:
    """Listens until it is closed. The engine sends its events in order."""

    def __init__(self, node: str) -> None:
        self.node = node
        self._client = connect_engine().client
        self._counts: Counter[str] = Counter()
        self._marks: set[str] = set()
        self._changed = threading.Condition()
        # The engine repeats the events of this second, so none is missed.
        self._stream = self._client.events(
            since=int(time.time()), decode=True, filters={"event": ["start", "create"]}
        )
        self._thread = threading.Thread(target=self._listen, name="engine-events", daemon=True)
        self._thread.start()

    def by_job(self) -> Counter[str]:
        """Starts of each job's container until now. The event of a marker volume comes last.

        Raises TimeoutError if the marker's event does not arrive.
        """
        mark = f"{self.node}-{time.monotonic_ns()}"
        volume = self._client.volumes.create(mark)
        try:
            with self._changed:
                if not self._changed.wait_for(lambda: mark in self._marks, EVENT_SECONDS):
                    raise TimeoutError("the engine sent no event for the marker")
                return self._counts.copy()
        finally:
            volume.remove()

    def close(self) -> None:
        self._stream.close()
        self._thread.join(EVENT_SECONDS)
        self._client.close()

    def _listen(self) -> None:
        for event in self._stream:
            with self._changed:
                self._count(event)
                self._changed.notify_all()

    def _count(self, event: dict[str, Any]) -> None:
        actor = event["Actor"]
        labels = actor.get("Attributes") or {}
        if event["Type"] == "volume":
            self._marks.add(actor["ID"])
        elif event["Action"] == "start" and labels.get(f"{LABEL}node") == self.node:
            self._counts[labels[f"{LABEL}job"]] += 1
