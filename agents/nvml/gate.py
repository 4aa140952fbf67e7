"""The gate of the driver's library, which is one for the whole process.

To reset a GPU, this process must have no handle of any GPU. The library is then shut down, which no
other thread may notice in the middle of a call.
"""

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator

# How long closing waits for calls in progress. One that takes longer hangs.
CLOSE_SECONDS = 10.0


class GateBusy(Exception):
    """A call in progress does not end, so the library cannot be closed."""


class CallGate:
    """Open to any number of threads, or closed by one, which may go on calling."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside: Counter[int] = Counter()
        self._closer: int | None = None

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Waits while another thread has closed the gate."""
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._may_enter(me))
            self._inside[me] += 1
        try:
            yield
        finally:
            self._leave(me)

    @contextlib.contextmanager
    def entered_if_open(self) -> Iterator[bool]:
        """Whether the gate was open. The thread is inside until the block ends."""
        me = threading.get_ident()
        with self._changed:
            is_open = self._may_enter(me)
            if is_open:
                self._inside[me] += 1
        try:
            yield is_open
        finally:
            if is_open:
                self._leave(me)

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """Nobody else is inside during the block. Raises GateBusy if somebody does not leave."""
        me = threading.get_ident()
        with self._changed:
            if not self._changed.wait_for(lambda: self._closer is None, CLOSE_SECONDS):
                raise GateBusy
            self._closer = me
            if not self._changed.wait_for(lambda: not set(self._inside) - {me}, CLOSE_SECONDS):
                self._open()
                raise GateBusy
        try:
            yield
        finally:
            with self._changed:
                self._open()

    def _may_enter(self, thread: int) -> bool:
        """A thread that is inside may enter again: a closer waits for its end."""
        return self._closer in (None, thread) or thread in self._inside

    def _leave(self, thread: int) -> None:
        with self._changed:
            self._inside[thread] -= 1
            if not self._inside[thread]:
                del self._inside[thread]
                self._changed.notify_all()

    def _open(self) -> None:
        self._closer = None
        self._changed.notify_all()


CALLS = CallGate()
