"""How often an engine started a node's containers, as the engine itself tells it."""

import threading
import time
from collections import Counter
from typing import Any

import docker

from agents.runtime.docker import API_VERSION, TIMEOUT_SECONDS
from agents.runtime.docker_recipe import LABEL

HEARD_SECONDS = 30.0


class StartCounter:
    """Listens from its making until it is closed. The engine sends its news in order."""

    def __init__(self, node: str) -> None:
        self.node = node
        self._client = docker.from_env(version=API_VERSION, timeout=TIMEOUT_SECONDS)
        self._counts: Counter[str] = Counter()
        self._marks: set[str] = set()
        self._news = threading.Condition()
        # The engine repeats what it said in this second: nothing is missed in between.
        self._stream = self._client.events(
            since=int(time.time()), decode=True, filters={"event": ["start", "create"]}
        )
        self._thread = threading.Thread(target=self._listen, name="engine's news", daemon=True)
        self._thread.start()

    def by_job(self) -> Counter[str]:
        """Starts of each job's container until now: news of a mark that is set now come last.

        Raises TimeoutError where the engine does not tell of the mark.
        """
        mark = f"{self.node}-{time.monotonic_ns()}"
        volume = self._client.volumes.create(mark)
        try:
            with self._news:
                if not self._news.wait_for(lambda: mark in self._marks, HEARD_SECONDS):
                    raise TimeoutError("the engine is silent about what it did")
                return self._counts.copy()
        finally:
            volume.remove()

    def close(self) -> None:
        self._stream.close()
        self._thread.join(HEARD_SECONDS)
        self._client.close()

    def _listen(self) -> None:
        for event in self._stream:
            with self._news:
                self._hear(event)
                self._news.notify_all()

    def _hear(self, event: dict[str, Any]) -> None:
        actor = event["Actor"]
        labels = actor.get("Attributes") or {}
        if event["Type"] == "volume":
            self._marks.add(actor["ID"])
        elif event["Action"] == "start" and labels.get(f"{LABEL}node") == self.node:
            self._counts[labels[f"{LABEL}job"]] += 1
