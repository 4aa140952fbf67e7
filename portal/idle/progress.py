"""Whether a gang makes progress, from how far its ranks' logs and metrics have come. Pure.

A collective operation that hangs keeps GPUs and processors busy, so their activity says nothing.
What a rank never wrote is no silence: only ranks that have written count, and a gang of which none
has is not judged, unless it has a limit of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

# A gang that was silent for long before, as between two epochs, may be so twice as long again.
PAUSE_FACTOR = 2


@dataclass(frozen=True, slots=True)
class RankProgress:
    mark: str
    """How far its log and its metrics are; empty before it has written anything."""
    moved_at: datetime | None = None
    """When that was last seen to change; of a gang with a limit of its own, first its start."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Of the ranks of one attempt."""

    ranks: Mapping[int, RankProgress] = field(default_factory=dict)
    longest_pause: timedelta = timedelta()

    @property
    def moved_at(self) -> datetime | None:
        """When any of its ranks last wrote; None if none has."""
        return max((r.moved_at for r in self.ranks.values() if r.moved_at), default=None)

    @property
    def first_silent_rank(self) -> int:
        """Of those that have written, the one that stopped first."""
        moved = [(r.moved_at, rank) for rank, r in self.ranks.items() if r.moved_at]
        return min(moved)[1] if moved else 0

    def with_marks(self, marks: Mapping[int, str], now: datetime) -> "Progress":
        """After another look at its ranks."""
        ranks = {rank: self._rank(rank, mark, now) for rank, mark in marks.items()}
        has_moved = any(ranks[rank] != self.ranks.get(rank) for rank in ranks)
        pause = now - self.moved_at if has_moved and self.moved_at else timedelta()
        return Progress(ranks, max(self.longest_pause, pause))

    def with_silent_nodes(self, now: datetime) -> "Progress":
        """Its nodes do not answer: the silence begins anew once they do."""
        ranks = {
            rank: replace(one, moved_at=now) if one.moved_at else one
            for rank, one in self.ranks.items()
        }
        return replace(self, ranks=ranks)

    def _rank(self, rank: int, mark: str, now: datetime) -> RankProgress:
        before = self.ranks.get(rank, RankProgress(""))
        return before if before.mark == mark else RankProgress(mark, now)

    def silence(
        self, now: datetime, limit: timedelta, *, is_exact: bool = False
    ) -> timedelta | None:
        """For how long all of its ranks have been silent, if that is longer than `limit` and,
        unless that `is_exact`, than this gang has been before."""
        if self.moved_at is None:
            return None
        silent = now - self.moved_at
        least = limit if is_exact else max(limit, PAUSE_FACTOR * self.longest_pause)
        return silent if silent >= least else None
