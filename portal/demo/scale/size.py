"""How much is written, and the one source of chance behind it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from uuid import UUID

DAYS = 90


@dataclass(frozen=True, slots=True)
class Size:
    """`jobs` counts those that run, wait and have ended. Nodes have eight GPUs each."""

    jobs: int = 10_000
    nodes: int = 1_000
    users: int = 240
    projects: int = 24


@dataclass(frozen=True, slots=True)
class Chance:
    """The same seed and the same `now` give the same rows, ids included."""

    random: Random
    now: datetime

    def uuid(self) -> UUID:
        return UUID(int=self.random.getrandbits(128), version=4)

    def happens(self, percent: float) -> bool:
        return self.random.random() * 100 < percent

    def back(self, hours: float) -> datetime:
        """A moment of the last so many hours; near ones are likelier."""
        return self.now - timedelta(seconds=int(self.random.random() ** 1.5 * hours * 3600))


Say = Callable[[str], None]
