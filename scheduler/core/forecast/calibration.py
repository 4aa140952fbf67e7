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

NEEDS = 15
"""So many usable questions at least."""
LAST = 150
"""No more than so many are looked at."""
FADE = 30.0
"""For the expected wait a question counts 1/e as much as one asked so many later."""
IMAGINED = 5.0
"""The weight of imagined questions that were answered right: waits drift, answers come late."""
RECENT = 60
"""Whether calibration or the forecast itself did better is judged by so many answers."""
TARGET = 0.97
"""Of the bounds should hold. Waits drift meanwhile: on traces about 95 % of them do."""
UNTRIED = 1.4
"""Times as long as forecast is the bound, until NEEDS questions say better. Forecasts of one moment
share what is wrong with them (how much work is left), so the spread of the runs is too little."""
LEAST = 60.0
"""Shorter waits count as this: a start within a minute is at once."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds until a start: with 10, 50 and 90 % of the forecasts."""

    optimistic: float
    expected: float
    pessimistic: float


@dataclass(frozen=True, slots=True)
class Question:
    """A forecast that was made. `own`: as simulated; `calibrated`: as corrected then, told or not.
    `waited`: until it started, or until now. `kind`: such as the order in force."""

    own: Waits
    calibrated: Waits
    waited: float
    started: bool
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """`told`: the better of both, value by value; `calibrated`: to be kept with the question."""

    told: Waits
    calibrated: Waits


@dataclass(frozen=True, slots=True)
class Corrections:
    """Factors for the three values, and which of them are told already: the others did worse than
    the forecast itself lately. Made once from a history, then good for many forecasts."""

    low: float
    middle: float
    high: float
    tells_low: bool
    tells_middle: bool
    tells_high: bool
    known: int

    @classmethod
    def of(cls, history: Sequence[Question], kind: str = "") -> "Corrections":
        """From earlier questions, oldest first. Those of the same kind count, or all while there
        are fewer than NEEDS of them. `known`: how many answered ones are of that kind."""
        alike = [question for question in history if question.kind == kind]
        known = sum(question.started for question in alike)
        history = (alike if len(alike) >= NEEDS else list(history))[-4 * LAST :]
        ended = [question for question in history if question.started][-RECENT:]
        return cls(
            low=_low(history),
            middle=_middle(history),
            high=_high(history),
            tells_low=_better(ended, lambda waits, wait: wait >= waits.optimistic, 0.9),
            tells_middle=_nearer(ended),
            tells_high=_better(
                ended, lambda waits, wait: wait <= waits.pessimistic + LEAST, TARGET
            ),
            known=known,
        )

    def answer(self, own: Waits) -> Answer:
        """The forecast as it is told and as it is kept."""
        corrected = _ordered(
            own.optimistic * self.low, own.expected * self.middle, own.pessimistic * self.high
        )
        told = _ordered(
            (corrected if self.tells_low else own).optimistic,
            (corrected if self.tells_middle else own).expected,
            (corrected if self.tells_high else own).pessimistic,
        )
        return Answer(told, corrected)


def calibrate(own: Waits, history: Sequence[Question], kind: str = "") -> Answer:
    """Correct one forecast by earlier questions, oldest first."""
    return Corrections.of(history, kind).answer(own)


def _ordered(low: float, middle: float, high: float) -> Waits:
    return Waits(min(low, middle), middle, max(middle, high))


def _ratios(history: Sequence[Question], value: Callable[[Waits], float]) -> Floats:
    """Actual / forecast of the last questions that are answered, or open beyond the forecast."""
    usable = [
        max(question.waited, LEAST) / max(value(question.own), LEAST)
        for question in history
        if question.started or question.waited > value(question.own)
    ]
    return np.array(usable[-LAST:])


def _low(history: Sequence[Question]) -> float:
    ratios = _ratios(history, lambda waits: waits.optimistic)
    return float(np.quantile(ratios, 0.1)) if len(ratios) >= NEEDS else 1.0


def _middle(history: Sequence[Question]) -> float:
    """The median; recent questions count most, and IMAGINED ones that were answered right."""
    ratios = _ratios(history, lambda waits: waits.expected)
    if len(ratios) < NEEDS:
        return 1.0
    weights = np.append(np.exp(-np.arange(len(ratios))[::-1] / FADE), IMAGINED)
    ratios = np.append(ratios, 1.0)
    order = np.argsort(ratios, kind="stable")
    sums = np.cumsum(weights[order])
    return float(ratios[order][np.searchsorted(sums, sums[-1] / 2)])


def _high(history: Sequence[Question]) -> float:
    """The ratio that TARGET of the recent ones stay below, and a new one too: of n, the one in
    place TARGET (n + 1). What the last calibrated bounds missed is aimed above."""
    ratios = _ratios(history, lambda waits: waits.pessimistic)
    if len(ratios) < NEEDS:
        return UNTRIED
    ended = [question for question in history if question.started][-RECENT:]
    aim = TARGET
    if len(ended) >= NEEDS:
        held = [question.waited <= question.calibrated.pessimistic + LEAST for question in ended]
        aim = min(0.995, max(TARGET, 2 * TARGET - float(np.mean(held))))
    place = min(len(ratios), ceil(aim * (len(ratios) + 1)))
    return float(np.sort(ratios)[place - 1])


def _better(
    ended: Sequence[Question], holds: Callable[[Waits, float], bool], target: float
) -> bool:
    """Whether the corrected value is told: unless the plain one has held more often lately, and the
    corrected one too seldom."""
    if len(ended) < NEEDS:
        return True
    of_own = sum(holds(question.own, question.waited) for question in ended)
    of_corrected = sum(holds(question.calibrated, question.waited) for question in ended)
    return of_corrected >= min(of_own, target * len(ended))


def _nearer(ended: Sequence[Question]) -> bool:
    """Whether corrected expectations were at least as near as the plain ones, in the median."""
    waited = [question for question in ended if question.waited >= LEAST]
    if len(waited) < NEEDS:
        return True
    plain = np.median([abs(q.own.expected / q.waited - 1) for q in waited])
    corrected = np.median([abs(q.calibrated.expected / q.waited - 1) for q in waited])
    return bool(corrected <= plain)
