"""Online calibration: factors that correct what earlier estimates got wrong.

Values in, values out: the caller keeps the records. Waits are in seconds from the estimate to the
start. The pessimistic factor is a conformal quantile, so that the bound would have held in TARGET
of the recent cases, however the errors are distributed. See docs/research/start-estimates.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from scheduler.core.forecast.hazard import Floats

# Fewer usable records than this correct nothing.
MIN_RECORDS = 15
# Only the newest records are used.
MAX_RECORDS = 150
# For the expected wait, a record weighs 1/e of one made this many records later.
FADE_RECORDS = 30.0
# The weight of imagined correct estimates: waits drift, and outcomes arrive late.
PRIOR_WEIGHT = 5.0
# This many outcomes decide whether the calibrated or the plain estimate did better.
RECENT_ANSWERS = 60
# This part of the bounds should hold. Waits drift, so on traces about 95 % do.
TARGET = 0.97
# The bound is this many times the simulated one until there are MIN_RECORDS. Simulation runs of one
# moment share their error (how much work is left), so their spread is too small.
UNTRIED_FACTOR = 1.4
# Shorter waits count as this: a start within a minute is immediate.
MIN_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class WaitRange:
    """Seconds until a start: the 10, 50 and 90 % points of the simulation runs."""

    optimistic: float
    expected: float
    pessimistic: float


@dataclass(frozen=True, slots=True)
class EstimateRecord:
    """An earlier estimate of a job and what came of it."""

    own: WaitRange
    """As simulated."""
    calibrated: WaitRange
    """As corrected then, whether that was published or not."""
    waited: float
    """Until it started, or until now."""
    started: bool
    kind: str = ""
    """Records of one kind correct each other; see `pass_estimates.record_kind`."""
    published: WaitRange | None = None
    """As people were told; None: as calibrated."""

    @property
    def published_waits(self) -> WaitRange:
        return self.published or self.calibrated


@dataclass(frozen=True, slots=True)
class CalibratedWaits:
    published: WaitRange
    """Of the simulated and the calibrated value whichever did better lately, value by value."""
    calibrated: WaitRange
    """To be kept with the record."""


@dataclass(frozen=True, slots=True)
class Corrections:
    """Factors for the three values, and which of them apply: not those that lately did worse than
    the plain estimate. Computed once from the records, then used for many estimates."""

    low: float
    middle: float
    high: float
    applies_low: bool
    applies_middle: bool
    applies_high: bool
    samples: int
    """Records of this kind whose job has started."""

    @classmethod
    def from_records(cls, records: Sequence[EstimateRecord], kind: str = "") -> "Corrections":
        """From earlier records, oldest first: those of the same kind, or all while there are fewer
        than MIN_RECORDS of them."""
        alike = [record for record in records if record.kind == kind]
        samples = sum(record.started for record in alike)
        records = (alike if len(alike) >= MIN_RECORDS else list(records))[-4 * MAX_RECORDS :]
        ended = [record for record in records if record.started][-RECENT_ANSWERS:]
        return cls(
            low=_low(records),
            middle=_middle(records),
            high=_high(records),
            applies_low=_better(ended, lambda waits, wait: wait >= waits.optimistic, 0.9),
            applies_middle=_nearer(ended),
            applies_high=_better(
                ended, lambda waits, wait: wait <= waits.pessimistic + MIN_WAIT_SECONDS, TARGET
            ),
            samples=samples,
        )

    def apply(self, own: WaitRange) -> CalibratedWaits:
        """The estimate as it is published and as it is kept."""
        corrected = _ordered(
            own.optimistic * self.low, own.expected * self.middle, own.pessimistic * self.high
        )
        published = _ordered(
            (corrected if self.applies_low else own).optimistic,
            (corrected if self.applies_middle else own).expected,
            (corrected if self.applies_high else own).pessimistic,
        )
        return CalibratedWaits(published, corrected)


def _ordered(low: float, middle: float, high: float) -> WaitRange:
    return WaitRange(min(low, middle), middle, max(middle, high))


def _ratios(records: Sequence[EstimateRecord], value: Callable[[WaitRange], float]) -> Floats:
    """Actual / estimated wait of the newest records that have started, or are overdue."""
    usable = [
        max(record.waited, MIN_WAIT_SECONDS) / max(value(record.own), MIN_WAIT_SECONDS)
        for record in records
        if record.started or record.waited > value(record.own)
    ]
    return np.array(usable[-MAX_RECORDS:])


def _low(records: Sequence[EstimateRecord]) -> float:
    ratios = _ratios(records, lambda waits: waits.optimistic)
    return float(np.quantile(ratios, 0.1)) if len(ratios) >= MIN_RECORDS else 1.0


def _middle(records: Sequence[EstimateRecord]) -> float:
    """The median; recent records weigh most, and PRIOR_WEIGHT counts as correct estimates."""
    ratios = _ratios(records, lambda waits: waits.expected)
    if len(ratios) < MIN_RECORDS:
        return 1.0
    weights = np.append(np.exp(-np.arange(len(ratios))[::-1] / FADE_RECORDS), PRIOR_WEIGHT)
    ratios = np.append(ratios, 1.0)
    order = np.argsort(ratios, kind="stable")
    sums = np.cumsum(weights[order])
    return float(ratios[order][np.searchsorted(sums, sums[-1] / 2)])


def _high(records: Sequence[EstimateRecord]) -> float:
    """The ratio that TARGET of the recent ones stay below, and a new one too: of n sorted ratios
    the one at TARGET (n + 1). If the last calibrated bounds held too seldom, aim higher."""
    ratios = _ratios(records, lambda waits: waits.pessimistic)
    if len(ratios) < MIN_RECORDS:
        return UNTRIED_FACTOR
    ended = [record for record in records if record.started][-RECENT_ANSWERS:]
    aim = TARGET
    if len(ended) >= MIN_RECORDS:
        kept = [
            record.waited <= record.calibrated.pessimistic + MIN_WAIT_SECONDS for record in ended
        ]
        aim = min(0.995, max(TARGET, 2 * TARGET - float(np.mean(kept))))
    place = min(len(ratios), ceil(aim * (len(ratios) + 1)))
    return float(np.sort(ratios)[place - 1])


def _better(
    ended: Sequence[EstimateRecord], holds: Callable[[WaitRange, float], bool], target: float
) -> bool:
    """Whether to apply the corrected value: unless it lately held too seldom and the plain one more
    often."""
    if len(ended) < MIN_RECORDS:
        return True
    of_own = sum(holds(record.own, record.waited) for record in ended)
    of_corrected = sum(holds(record.calibrated, record.waited) for record in ended)
    return of_corrected >= min(of_own, target * len(ended))


def _nearer(ended: Sequence[EstimateRecord]) -> bool:
    """Whether corrected expectations were at least as near as plain ones, by the median error."""
    waited = [record for record in ended if record.waited >= MIN_WAIT_SECONDS]
    if len(waited) < MIN_RECORDS:
        return True
    plain = np.median([abs(q.own.expected / q.waited - 1) for q in waited])
    corrected = np.median([abs(q.calibrated.expected / q.waited - 1) for q in waited])
    return bool(corrected <= plain)
