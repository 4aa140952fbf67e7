"""How good the earlier estimates of a kind were, and so how much the next one may say.

An estimate says no more than its own record supports: where the expected starts of its kind were
off by more than half of the wait, only the bound is told, with how often it held. Where that held
seldom as well, nothing is told. Values in, values out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from scheduler.core.forecast.calibration import (
    MIN_RECORDS,
    MIN_WAIT_SECONDS,
    RECENT_ANSWERS,
    EstimateRecord,
)

# The median error of expected starts, as a part of the wait, up to which a range is told.
MAX_MEDIAN_ERROR = 0.5
# The part of the bounds that has to have held, for a bound to be told.
MIN_HIT_RATE = 0.5


class Disclosure(StrEnum):
    """What of an estimate people are told."""

    RANGE = "range"
    """When it probably starts, and between which times."""
    BOUND = "bound"
    """Only by when, and in how many cases that was so."""
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class TrackRecord:
    """The outcomes of the newest estimates of one kind: those whose job has started, and those that
    are overdue, which count as they stand now."""

    outcomes: int
    median_error: float = 0.0
    """|expected wait / wait - 1|, of waits of a minute or more."""
    hit_rate: float = 1.0
    """The part of the pessimistic starts that were kept, within a minute."""

    @property
    def disclosure(self) -> Disclosure:
        """With few outcomes a range: it names what it rests on, and its bound is wide."""
        if self.outcomes < MIN_RECORDS or self.median_error <= MAX_MEDIAN_ERROR:
            return Disclosure.RANGE
        return Disclosure.BOUND if self.hit_rate >= MIN_HIT_RATE else Disclosure.NOTHING

    @classmethod
    def from_records(cls, records: Sequence[EstimateRecord], kind: str) -> "TrackRecord":
        """`records`: oldest first."""
        settled = [r for r in records if r.kind == kind and (r.started or _is_overdue(r))]
        newest = settled[-RECENT_ANSWERS:]
        waits = [r for r in newest if r.waited >= MIN_WAIT_SECONDS]
        if not waits:
            return cls(len(newest))
        errors = [abs(r.published_waits.expected / r.waited - 1) for r in waits]
        kept = [r.waited <= r.published_waits.pessimistic + MIN_WAIT_SECONDS for r in newest]
        return cls(len(newest), float(np.median(errors)), float(np.mean(kept)))


UNTRIED = TrackRecord(0)


def _is_overdue(record: EstimateRecord) -> bool:
    return record.waited > record.published_waits.pessimistic + MIN_WAIT_SECONDS
