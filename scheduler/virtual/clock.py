"""A virtual clock in whole seconds."""

import heapq
from collections.abc import Callable
from itertools import count

# Called with the time; returns whether anything changed that the planner should see.
EventHandler = Callable[[int], bool]


class VirtualClock:
    """Events of one moment run in the order in which they were scheduled."""

    def __init__(self) -> None:
        self._events: list[tuple[int, int, EventHandler]] = []
        self._order = count()
        self._rechecks: set[int] = set()

    def schedule(self, when: int, handler: EventHandler) -> None:
        heapq.heappush(self._events, (when, next(self._order), handler))

    def recheck_at(self, when: int, grid: int = 1) -> None:
        """Plan again then, or at the next moment of the grid; once a moment."""
        when = -(-when // grid) * grid
        if when in self._rechecks:
            return
        self._rechecks.add(when)

        def recheck(now: int) -> bool:
            self._rechecks.discard(now)
            return True

        self.schedule(when, recheck)

    @property
    def next_at(self) -> int | None:
        """When the next event is due; None: there is none."""
        return self._events[0][0] if self._events else None

    def run_due(self, now: int) -> bool:
        """Run all due events. True if anything changed."""
        changed = False
        while self._events and self._events[0][0] <= now:
            changed |= heapq.heappop(self._events)[2](now)
        return changed
