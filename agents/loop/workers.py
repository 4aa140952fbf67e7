"""Runs the slow work of a node beside its loop, one piece at a time for each key."""

import logging
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor

# Threads for short work: creating, starting and removing containers.
SHARED_THREADS = 8
# How long an agent that ends waits for work in threads of its own, such as a grace period. The
# next agent goes on with what is not done by then.
CLOSE_SECONDS = 5.0

log = logging.getLogger("agents.loop.workers")


class Workers:
    """`on_done` is called after each piece, from its thread."""

    def __init__(self, on_done: Callable[[], None]) -> None:
        self._on_done = on_done
        self._shared = ThreadPoolExecutor(SHARED_THREADS, thread_name_prefix="replica")
        self._own: set[threading.Thread] = set()
        self._busy: set[Hashable] = set()
        self._closed = False
        self._lock = threading.Lock()

    def begin(
        self, key: Hashable, work: Callable[[], None], *, has_own_thread: bool = False
    ) -> None:
        """No effect while an earlier piece with this key is under way.

        Work that may take long, or that must not wait for others, gets a thread of its own: a stop
        lasts as long as its grace period, which may be an hour."""
        with self._lock:
            if self._closed or key in self._busy:
                return
            self._busy.add(key)

        def run() -> None:
            try:
                work()
            except Exception:
                log.exception("action_failed", extra={"subject": str(key)})
            finally:
                with self._lock:
                    self._busy.discard(key)
                    self._own.discard(threading.current_thread())
                self._on_done()

        self._start(run, has_own_thread=has_own_thread)

    def is_busy(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._busy

    def close(self) -> None:
        """Take no more work, and wait for what is under way; for threads of their own not long."""
        with self._lock:
            self._closed = True
            own = list(self._own)
        self._shared.shutdown(wait=True)
        end = time.monotonic() + CLOSE_SECONDS
        for thread in own:
            thread.join(max(0.0, end - time.monotonic()))

    def _start(self, run: Callable[[], None], *, has_own_thread: bool) -> None:
        if not has_own_thread:
            self._shared.submit(run)
            return
        thread = threading.Thread(target=run, name="replica-own", daemon=True)
        with self._lock:
            self._own.add(thread)
        thread.start()

    def start_thread(self, work: Callable[[], None]) -> None:
        """Run it in a thread of its own, which `close` does not wait for."""
        threading.Thread(target=work, name="pull", daemon=True).start()


class InlineWorkers(Workers):
    """Does the work in place, so that a drill or a test has one order of events."""

    def start_thread(self, work: Callable[[], None]) -> None:
        work()

    def _start(self, run: Callable[[], None], *, has_own_thread: bool) -> None:
        run()
