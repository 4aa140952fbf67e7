"""Run times as hazards over bins of attained service, and the compiled sums over them.

The hazard of a bin is the chance that a job that reaches it ends in it. Jobs still running count as
survivors of the bins they left (Kaplan-Meier), so young jobs do not look short. All times are in
seconds. Method and constants: docs/research/start-estimates.md.
"""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.core.compiled import compiled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIRST_EDGE = 60.0
GROWTH = 1.5
LAST_EDGE = 6e6
# The last bin is open; it counts as if it ended here.
END = 9e6

# A job's state: not ended, ended by itself, stopped before it ended.
ALIVE, DONE, CUT = 0, 1, 2

# An end at one age is evidence for ends near that age: two bins on each side.
SPREAD = (1.0, 2.0, 3.0, 2.0, 1.0)


@dataclass(frozen=True, slots=True)
class Shrinkage:
    """How many imagined jobs pull each layer towards the one before it: all jobs towards a
    log-uniform prior, one GPU count towards all, a group towards its GPU count."""

    all: float = 2.0
    size: float = 5.0
    group: float = 1.0


def _edges() -> Floats:
    edges = [0.0, FIRST_EDGE]
    while edges[-1] * GROWTH < LAST_EDGE:
        edges.append(edges[-1] * GROWTH)
    return np.array([*edges, END])


EDGES: Floats = _edges()
WIDTHS: Floats = np.diff(EDGES)
BINS = len(WIDTHS)
_STARTS: list[float] = EDGES[:-1].tolist()
# Log-uniform: every bin is as likely as any other.
PRIOR: Floats = 1.0 / np.arange(BINS, 0, -1)


def bin_of(seconds: float) -> int:
    """The bin of an age; the last one has no end."""
    return min(BINS, bisect_right(_STARTS, seconds)) - 1


def _spread_ends() -> tuple[Floats, Floats]:
    """(ends, at_risk): rows by the bin where a run ended, columns by the bin it speaks of."""
    ends = np.zeros((BINS, BINS))
    for row in range(BINS):
        for offset, share in enumerate(SPREAD, start=-2):
            if 0 <= row + offset < BINS:
                ends[row, row + offset] = share
    ends /= ends.sum(axis=1, keepdims=True)
    before = np.cumsum(ends, axis=1) - ends
    reached = np.arange(BINS)[None, :] <= np.arange(BINS)[:, None] + 2
    return ends, np.where(reached, 1.0 - before, 0.0)


ENDS, AT_RISK = _spread_ends()


def hazard(ended: Floats, survived: Floats, towards: Floats, weight: float) -> Floats:
    """ended / (ended + survived) by bin, pulled towards another hazard by `weight` imagined jobs.
    The last bin ends everything. Shape (BINS,)."""
    risk = (ended + weight * towards) / np.maximum(ended + survived + weight, 1e-12)
    risk[-1] = 1.0
    return risk


@compiled
def group_sums(
    slots: Ints,
    links: Ints,
    names: Ints,
    sizes: Ints,
    bins: Ints,
    states: Ints,
    weights: Floats,
    spread: tuple[Floats, Floats],
    sums: Floats,
) -> None:
    """Fill `sums[slot] = (ended, at risk)` by bin, over the neighbours of each slot.

    links: (slots, tier, 2) the previous and the next job of the tier, -1 at an end.
    sums: (slots, 2, BINS)."""
    ends, at_risk = spread
    for slot in slots:
        sums[slot] = 0.0
        for tier in range(3):
            for way in range(2):
                at = links[slot, tier, way]
                distance = 1
                while at >= 0 and distance < weights.shape[1]:
                    same_size = sizes[at] == sizes[slot]
                    closer = (tier == 1 and names[at] == names[slot]) or (tier == 2 and same_size)
                    if not closer:  # a closer tier counts it
                        weight = weights[tier, distance]
                        own = bins[at]
                        if states[at] == 1:
                            sums[slot, 0] += weight * ends[own]
                            sums[slot, 1] += weight * at_risk[own]
                        else:
                            sums[slot, 1, :own] += weight
                    at = links[at, tier, way]
                    distance += 1


@compiled
def group_curve(sums: Floats, towards: Floats, weight: float, curve: Floats) -> None:
    """Fill `curve` (BINS,): a group's sums (ended, at risk) over the hazard of its GPU count."""
    for b in range(len(curve) - 1):
        risk = (sums[0, b] + weight * towards[b]) / max(sums[1, b] + weight, 1e-12)
        curve[b] = min(1.0, risk)
    curve[-1] = 1.0


@compiled
def gittins(curve: Floats, first: int, widths: Floats) -> tuple[float, float]:
    """(index, mean) of a job that reached bin `first`: the best completions per second of service
    over every moment to stop trying, and the mean seconds that remain. curve: (BINS,)."""
    alive, ended, spent, best = 1.0, 0.0, 0.0, 0.0
    for b in range(first, len(widths)):
        risk = curve[b]
        ended += alive * risk
        spent += alive * widths[b] * (1.0 - risk / 2.0)
        alive *= 1.0 - risk
        if ended > best * spent:
            best = ended / spent
    return best, spent


@compiled
def gittins_all(
    slots: Ints,
    first: Ints,
    sums: Floats,
    towards: Floats,
    weight: float,
    widths: Floats,
    answers: Floats,
) -> None:
    """Fill `answers[slot] = (index, mean)`. first: bin by slot; towards: (slots given, BINS)."""
    curve = np.empty(len(widths))
    for i in range(len(slots)):
        slot = slots[i]
        group_curve(sums[slot], towards[i], weight, curve)
        best, spent = gittins(curve, first[slot], widths)
        answers[slot, 0] = best
        answers[slot, 1] = spent


def remaining(hazards: Floats, age: float, quantile: float) -> float:
    """The quantile of the seconds that remain to a job of this age, even within bins."""
    alive = 1.0
    for b in range(bin_of(age), BINS):
        low = max(age, float(EDGES[b]))
        high = max(low, float(EDGES[b + 1]))
        gone = float(hazards[b]) * (1.0 - (high - low) / float(WIDTHS[b]))
        risk = (float(hazards[b]) - gone) / max(1.0 - gone, 1e-12)
        if risk > 0 and alive * (1.0 - risk) <= 1.0 - quantile:
            return low + (high - low) * (alive - (1.0 - quantile)) / (alive * risk) - age
        alive *= 1.0 - risk
    return max(0.0, END - age)
