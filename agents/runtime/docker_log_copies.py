"""The copies of one node's logs: a file for each replica, a thread for each that runs."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from docker.models.containers import Container

from agents.runtime.docker_log import LogCopy, mark_path
from agents.runtime.docker_recipe import LABEL

# How long the last words of an ended container may take to be copied.
LAST_WORDS_SECONDS = 10

log = logging.getLogger("agents.runtime.docker")


class LogCopies:
    """Files in `home`. `ended` is called when a copy has ended. Safe for threads."""

    def __init__(self, home: Path, on_end: Callable[[], None]) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._home = home
        self._ended = on_end
        self._running: dict[str, tuple[LogCopy, threading.Thread]] = {}
        self._whole: set[str] = set()
        self._closed = False
        self._lock = threading.Lock()

    def follow(self, container: Container) -> None:
        """Copy its log, unless that is done or being done."""
        replica = container.labels[f"{LABEL}replica"]
        with self._lock:
            known = replica in self._running or replica in self._whole
            if self._closed or known or container.status == "created":
                return
            copy = LogCopy(container, self._path(replica))
            thread = threading.Thread(
                target=self._copy, args=(replica, copy), name=f"log of {replica}", daemon=True
            )
            self._running[replica] = (copy, thread)
        thread.start()

    def is_complete(self, replica: str) -> bool:
        """Whether all that an ended container said is in the file."""
        return replica in self._whole

    def wait(self, replica: str) -> None:
        """For the last words of a container that has ended; not for ever."""
        with self._lock:
            copy = self._running.get(replica)
        if copy is not None:
            copy[1].join(LAST_WORDS_SECONDS)

    @contextlib.contextmanager
    def removing(self, replica: str) -> Iterator[None]:
        """Without its files; nobody begins to copy it again before the block has ended well."""
        with self._lock:
            copy = self._running.get(replica)
            self._whole.add(replica)
        if copy is not None:
            copy[0].stop()
            self.wait(replica)
        for path in (self._path(replica), mark_path(self._path(replica))):
            path.unlink(missing_ok=True)
        yield
        with self._lock:
            self._whole.discard(replica)

    def read(self, replica: str, offset: int, limit: int) -> bytes:
        """Empty at the end, and where there is no log."""
        # It may be taken away at any moment: whoever asks is not who removes.
        with contextlib.suppress(FileNotFoundError), self._path(replica).open("rb") as copied:
            copied.seek(offset)
            return copied.read(limit)
        return b""

    def close(self) -> None:
        with self._lock:
            self._closed = True
            copies = list(self._running.values())
        for copy, thread in copies:
            copy.stop()
            thread.join(LAST_WORDS_SECONDS)

    def _path(self, replica: str) -> Path:
        return self._home / f"{replica}.log"

    def _copy(self, replica: str, copy: LogCopy) -> None:
        whole = True  # also where the copy fails in a way that would only repeat itself
        try:
            whole = copy.run()
        except Exception:
            log.exception("log_copy_failed", extra={"replica": replica})
        with self._lock:
            del self._running[replica]
            if whole:
                self._whole.add(replica)
        self._ended()
