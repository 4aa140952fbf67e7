"""Limits of one kind of stored things, and how much of it there is."""

from dataclasses import dataclass
from datetime import datetime, timedelta

# One run removes at most this many of each kind; the next one follows in a minute.
BATCH = 500
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """0: no limit."""

    days: int
    mib: int

    @property
    def max_bytes(self) -> int:
        return self.mib * MIB

    def cutoff(self, now: datetime) -> datetime | None:
        """What ended before this is removed."""
        return now - timedelta(days=self.days) if self.days else None


@dataclass(frozen=True, slots=True)
class StoredUse:
    """How much there is of one kind."""

    count: int
    bytes: int
    limits: RetentionLimits
    oldest_end: datetime | None
    """When the oldest ended job with something to remove ended; of audit lines, the oldest."""

    @property
    def excess_bytes(self) -> int:
        """How much is to be removed to meet the limit of bytes."""
        return max(0, self.bytes - self.limits.max_bytes) if self.limits.mib else 0

    @property
    def next_removal(self) -> datetime | None:
        """When the next one is removed by age; None without a limit of days."""
        if self.oldest_end is None or not self.limits.days:
            return None
        return self.oldest_end + timedelta(days=self.limits.days)
