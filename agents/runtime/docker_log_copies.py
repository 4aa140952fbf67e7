"""The log copies of one node: a file for each replica, a thread for each running one."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from docker.models.containers import Container

from agents.host.private_files import make_private_folder
from agents.runtime.docker_log import LogCopy, mark_path
from agents.runtime.docker_recipe import LABEL

# How long to wait until the rest of an ended container's log is copied.
FINAL_COPY_SECONDS = 10

log = logging.getLogger("agents.runtime.docker")


class LogCopies:
    """Files in `home`. `on_end` is called whenever a copy has ended. Thread-safe."""

    def __init__(self, home: Path, on_end: Callable[[], None]) -> None:
        make_private_folder(home)
        self._home = home
        self._ended = on_end
        self._running: dict[str, tuple[LogCopy, threading.Thread]] = {}
        self._complete: set[str] = set()
        self._closed = False
        self._lock = threading.Lock()

    def follow(self, container: Container) -> None:
        """Start to copy its log, unless that has been done or is in progress."""
        replica = container.labels[f"{LABEL}replica"]
        with self._lock:
            known = replica in self._running or replica in self._complete
            if self._closed or known or container.status == "created":
                return
            copy = LogCopy(container, self._path(replica))
            thread = threading.Thread(
                target=self._copy, args=(replica, copy), name=f"log of {replica}", daemon=True
            )
            self._running[replica] = (copy, thread)
        thread.start()

    def has_copy(self, replica: str) -> bool:
        """Whether `follow` would do nothing."""
        with self._lock:
            return self._closed or replica in self._running or replica in self._complete

    def is_complete(self, replica: str) -> bool:
        """Whether the whole log of an ended container is in the file."""
        return replica in self._complete

    def wait(self, replica: str) -> None:
        """Wait, for a limited time, until the log of an ended container is copied."""
        with self._lock:
            copy = self._running.get(replica)
        if copy is not None:
            copy[1].join(FINAL_COPY_SECONDS)

    @contextlib.contextmanager
    def removing(self, replica: str) -> Iterator[None]:
        """Delete the replica's files; no copy of its log starts until the block has succeeded."""
        with self._lock:
            copy = self._running.get(replica)
            self._complete.add(replica)
        if copy is not None:
            copy[0].stop()
            self.wait(replica)
        for path in (self._path(replica), mark_path(self._path(replica))):
            path.unlink(missing_ok=True)
        yield
        with self._lock:
            self._complete.discard(replica)

    def read(self, replica: str, offset: int, limit: int) -> bytes:
        """Empty at the end of the log, and if there is none."""
        # Another thread may remove it at any moment.
        with contextlib.suppress(FileNotFoundError), self._path(replica).open("rb") as log_file:
            log_file.seek(offset)
            return log_file.read(limit)
        return b""

    def close(self) -> None:
        with self._lock:
            self._closed = True
            copies = list(self._running.values())
        for copy, thread in copies:
            copy.stop()
            thread.join(FINAL_COPY_SECONDS)

    def _path(self, replica: str) -> Path:
        return self._home / f"{replica}.log"

    def _copy(self, replica: str, copy: LogCopy) -> None:
        is_complete = True  # also if the copy fails in a way that would only repeat itself
        try:
            is_complete = copy.run()
        except Exception:
            log.exception("log_copy_failed", extra={"replica": replica})
        with self._lock:
            del self._running[replica]
            if is_complete:
                self._complete.add(replica)
        self._ended()
