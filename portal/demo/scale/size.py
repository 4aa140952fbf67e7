"""The size of the seeded cluster, and its source of randomness."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from uuid import UUID

DAYS = 90


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """Numbers of rows. `jobs` includes running, waiting and ended ones; nodes have eight GPUs."""

    jobs: int = 10_000
    nodes: int = 1_000
    users: int = 240
    projects: int = 24


@dataclass(frozen=True, slots=True)
class SeededRandom:
    """The same seed and the same `now` give the same rows, including their ids."""

    random: Random
    now: datetime

    def uuid(self) -> UUID:
        return UUID(int=self.random.getrandbits(128), version=4)

    def happens(self, percent: float) -> bool:
        return self.random.random() * 100 < percent

    def recent_moment(self, hours: float) -> datetime:
        """A random moment in the last `hours`; recent ones are more likely."""
        return self.now - timedelta(seconds=int(self.random.random() ** 1.5 * hours * 3600))


Report = Callable[[str], None]
