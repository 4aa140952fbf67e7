"""Values that a process keeps for as long as they are asked for again and again.

What was worked out for a job is worth keeping while the job waits or runs, and nothing tells the
process when that is over: a value that nobody has asked for in two minutes is forgotten, so the
memory of a process does not grow with the number of jobs that it has ever seen.
"""

import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

SECONDS = 60.0


class RecentValues(Generic[Key, Value]):
    """Those that were kept or asked for in the last one to two `SECONDS`, at most twice `most`.

    Threads may share it: at worst a value is forgotten early, and worked out again.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        # Those since the turn, and those of the turn before that were not asked for since.
        self._recent: dict[Key, Value] = {}
        self._older: dict[Key, Value] = {}
        self._turned_at = clock()

    def __len__(self) -> int:
        return len(self._recent) + len(self._older)

    def get(self, key: Key) -> Value | None:
        """None if there is none."""
        found = self._recent.get(key)
        if found is None:
            found = self._older.pop(key, None)
            if found is not None:
                self.keep(key, found)
        return found

    def keep(self, key: Key, value: Value) -> None:
        """In place of the one before."""
        self._recent[key] = value
        if len(self._recent) >= self._most or self._clock() >= self._turned_at + SECONDS:
            self._turned_at = self._clock()
            self._recent, self._older = {}, self._recent
