"""Online calibration: what earlier forecasts got wrong by a factor is put right.

Plain values in and out: the caller keeps the questions. Waits are in seconds from the question to
the start. See jct_policies.md section 4; the pessimistic factor is a conformal quantile, so that
the bound would have held in TARGET of the recent cases, whatever the errors are distributed like.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from scheduler.core.forecast.hazard import Floats

MIN_RECORDS = 15
"""So many usable questions at least."""
MAX_RECORDS = 150
"""No more than so many are looked at."""
FADE_RECORDS = 30.0
"""For the expected wait a question counts 1/e as much as one asked so many later."""
PRIOR_WEIGHT = 5.0
"""The weight of imagined questions that were answered right: waits drift, answers come late."""
RECENT_ANSWERS = 60
"""Whether calibration or the forecast itself did better is judged by so many answers."""
TARGET = 0.97
"""Of the bounds should hold. Waits drift meanwhile: on traces about 95 % of them do."""
UNTRIED_FACTOR = 1.4
"""Times as long as forecast is the bound, until NEEDS questions say better. Forecasts of one moment
share what is wrong with them (how much work is left), so the spread of the runs is too little."""
MIN_WAIT_SECONDS = 60.0
"""Shorter waits count as this: a start within a minute is at once."""


@dataclass(frozen=True, slots=True)
class WaitRange:
    """Seconds until a start: with 10, 50 and 90 % of the forecasts."""

    optimistic: float
    expected: float
    pessimistic: float


@dataclass(frozen=True, slots=True)
class EstimateRecord:
    """A forecast that was made. `own`: as simulated; `calibrated`: as corrected then, told or not.
    `waited`: until it started, or until now. `kind`: such as the order in force."""

    own: WaitRange
    calibrated: WaitRange
    waited: float
    started: bool
    kind: str = ""


@dataclass(frozen=True, slots=True)
class CalibratedWaits:
    """`told`: the better of both, value by value; `calibrated`: to be kept with the question."""

    published: WaitRange
    calibrated: WaitRange


@dataclass(frozen=True, slots=True)
class Corrections:
    """Factors for the three values, and which of them are told already: the others did worse than
    the forecast itself lately. Made once from a history, then good for many forecasts."""

    low: float
    middle: float
    high: float
    applies_low: bool
    applies_middle: bool
    applies_high: bool
    samples: int

    @classmethod
    def from_records(cls, history: Sequence[EstimateRecord], kind: str = "") -> "Corrections":
        """From earlier questions, oldest first. Those of the same kind count, or all while there
        are fewer than NEEDS of them. `known`: how many answered ones are of that kind."""
        alike = [question for question in history if question.kind == kind]
        samples = sum(question.started for question in alike)
        history = (alike if len(alike) >= MIN_RECORDS else list(history))[-4 * MAX_RECORDS :]
        ended = [question for question in history if question.started][-RECENT_ANSWERS:]
        return cls(
            low=_low(history),
            middle=_middle(history),
            high=_high(history),
            applies_low=_better(ended, lambda waits, wait: wait >= waits.optimistic, 0.9),
            applies_middle=_nearer(ended),
            applies_high=_better(
                ended, lambda waits, wait: wait <= waits.pessimistic + MIN_WAIT_SECONDS, TARGET
            ),
            samples=samples,
        )

    def apply(self, own: WaitRange) -> CalibratedWaits:
        """The forecast as it is told and as it is kept."""
        corrected = _ordered(
            own.optimistic * self.low, own.expected * self.middle, own.pessimistic * self.high
        )
        told = _ordered(
            (corrected if self.applies_low else own).optimistic,
            (corrected if self.applies_middle else own).expected,
            (corrected if self.applies_high else own).pessimistic,
        )
        return CalibratedWaits(told, corrected)


def _ordered(low: float, middle: float, high: float) -> WaitRange:
    return WaitRange(min(low, middle), middle, max(middle, high))


def _ratios(history: Sequence[EstimateRecord], value: Callable[[WaitRange], float]) -> Floats:
    """Actual / forecast of the last questions that are answered, or open beyond the forecast."""
    usable = [
        max(question.waited, MIN_WAIT_SECONDS) / max(value(question.own), MIN_WAIT_SECONDS)
        for question in history
        if question.started or question.waited > value(question.own)
    ]
    return np.array(usable[-MAX_RECORDS:])


def _low(history: Sequence[EstimateRecord]) -> float:
    ratios = _ratios(history, lambda waits: waits.optimistic)
    return float(np.quantile(ratios, 0.1)) if len(ratios) >= MIN_RECORDS else 1.0


def _middle(history: Sequence[EstimateRecord]) -> float:
    """The median; recent questions count most, and IMAGINED ones that were answered right."""
    ratios = _ratios(history, lambda waits: waits.expected)
    if len(ratios) < MIN_RECORDS:
        return 1.0
    weights = np.append(np.exp(-np.arange(len(ratios))[::-1] / FADE_RECORDS), PRIOR_WEIGHT)
    ratios = np.append(ratios, 1.0)
    order = np.argsort(ratios, kind="stable")
    sums = np.cumsum(weights[order])
    return float(ratios[order][np.searchsorted(sums, sums[-1] / 2)])


def _high(history: Sequence[EstimateRecord]) -> float:
    """The ratio that TARGET of the recent ones stay below, and a new one too: of n, the one in
    place TARGET (n + 1). What the last calibrated bounds missed is aimed above."""
    ratios = _ratios(history, lambda waits: waits.pessimistic)
    if len(ratios) < MIN_RECORDS:
        return UNTRIED_FACTOR
    ended = [question for question in history if question.started][-RECENT_ANSWERS:]
    aim = TARGET
    if len(ended) >= MIN_RECORDS:
        held = [
            question.waited <= question.calibrated.pessimistic + MIN_WAIT_SECONDS
            for question in ended
        ]
        aim = min(0.995, max(TARGET, 2 * TARGET - float(np.mean(held))))
    place = min(len(ratios), ceil(aim * (len(ratios) + 1)))
    return float(np.sort(ratios)[place - 1])


def _better(
    ended: Sequence[EstimateRecord], holds: Callable[[WaitRange, float], bool], target: float
) -> bool:
    """Whether the corrected value is told: unless the plain one has held more often lately, and the
    corrected one too seldom."""
    if len(ended) < MIN_RECORDS:
        return True
    of_own = sum(holds(question.own, question.waited) for question in ended)
    of_corrected = sum(holds(question.calibrated, question.waited) for question in ended)
    return of_corrected >= min(of_own, target * len(ended))


def _nearer(ended: Sequence[EstimateRecord]) -> bool:
    """Whether corrected expectations were at least as near as the plain ones, in the median."""
    waited = [question for question in ended if question.waited >= MIN_WAIT_SECONDS]
    if len(waited) < MIN_RECORDS:
        return True
    plain = np.median([abs(q.own.expected / q.waited - 1) for q in waited])
    corrected = np.median([abs(q.calibrated.expected / q.waited - 1) for q in waited])
    return bool(corrected <= plain)
