"""Token buckets: something may happen at a steady rate, and in bursts.

They protect one process, or one row, from the work that calls cause, so they are counted where that
work is done: in memory, without a lock, a file or Redis. How often a *person* may call REST is
counted over all processes, by `portal.api.protocol.throttling`.
"""

import math
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

# Keys remembered by default. Each takes about 200 bytes.
MAX_KEYS = 20_000


@dataclass(frozen=True, slots=True)
class BucketRate:
    burst: int
    """How many may happen at once, after a quiet time."""
    per_second: float
    """How many in the long run."""

    def level(self, level: float, seconds: float) -> float:
        """What is in a bucket `seconds` after it held `level`."""
        return min(float(self.burst), level + max(0.0, seconds) * self.per_second)

    def wait_seconds(self, level: float, cost: float = 1) -> int:
        """Whole seconds until a bucket that holds `level` has `cost` to give; 0 if it has now.
        What costs more than the burst takes all of it."""
        missing = min(cost, self.burst) - level
        return math.ceil(missing / self.per_second) if missing > 0 else 0


class TokenBuckets:
    """A bucket for each key. All are full at first. For one thread."""

    def __init__(
        self,
        rate: BucketRate,
        *,
        max_keys: int = MAX_KEYS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rate = rate
        self._max_keys = max_keys
        self._clock = clock
        # Level and moment, of buckets that were not full; the one that was used last is the last.
        self._levels: dict[Hashable, tuple[float, float]] = {}

    def wait_seconds(self, key: Hashable) -> int:
        """Seconds until one can be taken; 0 if now."""
        return self.rate.wait_seconds(self._level(key))

    def take(self, key: Hashable, cost: float = 1) -> int:
        """Take `cost`. Returns 0, or the seconds to wait if there was less."""
        level = self._level(key)
        if wait := self.rate.wait_seconds(level, cost):
            return wait
        self._put(key, max(0.0, level - cost))
        return 0

    def owe(self, key: Hashable) -> None:
        """Take one, also if there is none: what was missing is waited for later."""
        self._put(key, self._level(key) - 1)

    def _level(self, key: Hashable) -> float:
        now = self._clock()
        level, at = self._levels.get(key, (float(self.rate.burst), now))
        return self.rate.level(level, now - at)

    def _put(self, key: Hashable, level: float) -> None:
        self._levels.pop(key, None)
        if level >= self.rate.burst:
            return
        self._levels[key] = (level, self._clock())
        # A stranger with many addresses can have a bucket forgotten, not fill the memory.
        while len(self._levels) > self._max_keys:
            del self._levels[next(iter(self._levels))]
