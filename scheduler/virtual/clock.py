"""A virtual clock: what happens next, in whole seconds."""

import heapq
from collections.abc import Callable
from itertools import count

# Told the time; says whether anything changed that the planner should see.
Happening = Callable[[int], bool]


class Clock:
    """Happenings of one moment come in the order in which they were set."""

    def __init__(self) -> None:
        self._events: list[tuple[int, int, Happening]] = []
        self._order = count()
        self._looks: set[int] = set()

    def at(self, when: int, happens: Happening) -> None:
        heapq.heappush(self._events, (when, next(self._order), happens))

    def look_at(self, when: int, grid: int = 1) -> None:
        """Ask the planner again then, or at the next moment of the grid, once."""
        when = -(-when // grid) * grid
        if when in self._looks:
            return
        self._looks.add(when)

        def look(now: int) -> bool:
            self._looks.discard(now)
            return True

        self.at(when, look)

    @property
    def next(self) -> int | None:
        """When something happens next; None when all is over."""
        return self._events[0][0] if self._events else None

    def happen(self, now: int) -> bool:
        """All that is due. True where anything changed."""
        changed = False
        while self._events and self._events[0][0] <= now:
            changed |= heapq.heappop(self._events)[2](now)
        return changed
