"""A virtual clock: what happens next, in whole seconds."""

import heapq
from collections.abc import Callable
from itertools import count

# Told the time; says whether anything changed that the planner should see.
EventHandler = Callable[[int], bool]


class VirtualClock:
    """Happenings of one moment come in the order in which they were set."""

    def __init__(self) -> None:
        self._events: list[tuple[int, int, EventHandler]] = []
        self._order = count()
        self._looks: set[int] = set()

    def schedule(self, when: int, happens: EventHandler) -> None:
        heapq.heappush(self._events, (when, next(self._order), happens))

    def recheck_at(self, when: int, grid: int = 1) -> None:
        """Ask the planner again then, or at the next moment of the grid, once."""
        when = -(-when // grid) * grid
        if when in self._looks:
            return
        self._looks.add(when)

        def look(now: int) -> bool:
            self._looks.discard(now)
            return True

        self.schedule(when, look)

    @property
    def next_at(self) -> int | None:
        """When something happens next; None when all is over."""
        return self._events[0][0] if self._events else None

    def run_due(self, now: int) -> bool:
        """All that is due. True where anything changed."""
        changed = False
        while self._events and self._events[0][0] <= now:
            changed |= heapq.heappop(self._events)[2](now)
        return changed
