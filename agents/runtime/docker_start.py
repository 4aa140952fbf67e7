"""When the Docker Engine began to serve, by its own clock.

The engine does not report its start. But it creates the default bridge again at each start, after
it has ended what an earlier run of it left, and before it serves (moby, `Daemon.restore` and
`initNetworkController`). With live-restore and running containers it keeps the bridge; such a
restart ends no container.
"""

import contextlib
import math
import threading
import time
from datetime import datetime

from docker import DockerClient
from docker.errors import NotFound

BRIDGE = "bridge"


class ServingSince:
    """Thread-safe. On an engine without a default bridge (`"bridge": "none"`) it counts from the
    first answer after the agent's start, or after the last request without an answer."""

    def __init__(self, client: DockerClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._answered_since = time.time()

    def read(self) -> float:
        """Unix seconds."""
        with contextlib.suppress(NotFound):
            created = read_engine_time(self._client.networks.get(BRIDGE).attrs.get("Created", ""))
            if math.isfinite(created):
                return created
        with self._lock:
            return self._answered_since

    def forget(self) -> None:
        """The engine did not answer."""
        with self._lock:
            self._answered_since = math.inf

    def answered(self) -> None:
        with self._lock:
            if math.isinf(self._answered_since):
                self._answered_since = time.time()


def read_engine_time(text: str) -> float:
    """Unix seconds of a time of the engine (RFC 3339); infinite if it has none, written as year 1
    or not at all."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return math.inf
    return moment.timestamp() if moment.year > 1 and moment.tzinfo else math.inf
