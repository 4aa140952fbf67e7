"""The jobs that a RuntimeModel knows as growing arrays: one slot a job, linked to neighbours."""

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scheduler.core.forecast.hazard import ALIVE, BINS, Floats, Ints

# Same user, name and GPU count; same user and GPU count; same user.
TIERS = 3


@dataclass
class JobTable:
    """One row a slot; the columns grow together."""

    count: int = 0
    # Numbers of the slot's first and second tier.
    names: Ints = field(default_factory=lambda: np.zeros(64, np.int64))
    sizes: Ints = field(default_factory=lambda: np.zeros(64, np.int64))
    # The row of its GPU count among the layers.
    rows: Ints = field(default_factory=lambda: np.zeros(64, np.int64))
    # The bin of attained service, and whether the job has ended.
    bins: Ints = field(default_factory=lambda: np.zeros(64, np.int64))
    states: Ints = field(default_factory=lambda: np.zeros(64, np.int64))
    # (slot, tier, 2): the previous and the next job of its tier, -1 at an end.
    links: Ints = field(default_factory=lambda: np.zeros((64, TIERS, 2), np.int64))
    # (slot, 2, BINS): sums over its neighbours, valid where not `stale`.
    sums: Floats = field(default_factory=lambda: np.zeros((64, 2, BINS)))
    # (slot, 2): Gittins index and mean remaining seconds, computed from `sums`.
    answers: Floats = field(default_factory=lambda: np.zeros((64, 2)))
    stale: NDArray[np.bool_] = field(default_factory=lambda: np.ones(64, np.bool_))
    _last: dict[Hashable, int] = field(default_factory=dict)
    _numbers: dict[Hashable, int] = field(default_factory=dict)

    def add(self, user: str, group: str, size: int, row: int) -> int:
        """Add a slot behind the last job of each of its tiers."""
        slot = self.count
        if slot == len(self.bins):
            self._grow()
        self.count += 1
        tiers = ((user, size, group), (user, size), (user,))
        self.names[slot] = self._numbers.setdefault(tiers[0], len(self._numbers))
        self.sizes[slot] = self._numbers.setdefault(tiers[1], len(self._numbers))
        self.rows[slot] = row
        self.states[slot], self.bins[slot] = ALIVE, 0
        for tier, key in enumerate(tiers):
            before = self._last.get(key, -1)
            self.links[slot, tier] = (before, -1)
            if before >= 0:
                self.links[before, tier, 1] = slot
            self._last[key] = slot
        self.stale[slot] = True
        return slot

    def neighbours(self, slot: int, reach: int) -> list[int]:
        """This slot, and those that have it among their neighbours; some appear twice."""
        slots = [slot]
        links = self.links
        for tier in range(TIERS):
            for way in (0, 1):
                at = int(links[slot, tier, way])
                for _ in range(reach):
                    if at < 0:
                        break
                    slots.append(at)
                    at = int(links[at, tier, way])
        return slots

    def remove_last(self, user: str, group: str, size: int) -> None:
        """Undo the last `add`, which had these arguments."""
        slot = self.count - 1
        for tier, key in enumerate(((user, size, group), (user, size), (user,))):
            before = int(self.links[slot, tier, 0])
            if before >= 0:
                self.links[before, tier, 1] = -1
                self._last[key] = before
            else:
                del self._last[key]
        self.count = slot

    def _grow(self) -> None:
        for name in (
            "names",
            "sizes",
            "rows",
            "bins",
            "states",
            "links",
            "sums",
            "answers",
            "stale",
        ):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
