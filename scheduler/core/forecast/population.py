"""How long jobs run at all, read from every limit that is known, and what that says of one limit.

A limit is a run time times what its user adds for safety. Ended runs alone tell of both wrongly:
the long ones have not ended yet, so the share of a limit that is used looks larger than it will be
for long limits. The limits of waiting and running jobs are known, though, so the run times behind
them are found by expectation and maximisation (the empirical Bayes deconvolution of limits by the
ratios of ended runs). Then the chance of a run time under a limit is that of the ratio times that
of the run time. Seconds throughout.
"""

import numpy as np

from scheduler.core.forecast.hazard import Floats, Ints

SHORTEST = 10.0
GROWTH = 1.25
COUNT = 76
"""Bins of run times from SHORTEST on, each GROWTH times as long: up to seven years."""
ROUNDS = 10
POINTS = 50
"""So many points stand for the ratios of ended runs."""
UNSEEN = 0.02
"""The part of the run times that is spread over all bins alike."""
SMOOTH = (0.25, 0.5, 0.25)


def ratio_points(ratios: Floats) -> Floats:
    """The middles of POINTS equal parts of the ratios, or the ratios where they are fewer."""
    if len(ratios) <= POINTS:
        return np.sort(ratios)
    return np.asarray(np.quantile(ratios, (np.arange(POINTS) + 0.5) / POINTS))


def run_time_distribution(ran: Floats, ratios: Floats, limits: Floats, ages: Floats) -> Floats:
    """The chance of each bin of run times, over jobs that ended and jobs that have not.

    ran: of ended runs, may be none; ratios: at least one; limits, ages: of the others. Shape
    (COUNT,), sums to 1."""
    ended = np.bincount(_bins(ran), minlength=COUNT).astype(np.float64)
    ratios = ratio_points(ratios)
    possible = ratios[None, :] * limits[:, None]
    beyond = possible > ages[:, None]
    beyond[~beyond.any(axis=1), -1] = True
    bins = _bins(possible)
    chance = np.full(COUNT, 1 / COUNT)
    for _ in range(ROUNDS):
        parts = chance[bins] * beyond
        parts /= parts.sum(axis=1, keepdims=True)
        found = ended + np.bincount(bins.ravel(), weights=parts.ravel(), minlength=COUNT)
        found = np.convolve(found, SMOOTH, "same") + 1e-9
        chance = (1 - UNSEEN) * found / found.sum() + UNSEEN / COUNT
    return np.asarray(chance)


def remaining(
    ages: Floats, limits: Floats, ratios: Floats, chances: Floats, chance: Floats
) -> Floats:
    """What remains to each job, drawn by `chance` in [0, 1): one of the ratios times its limit,
    each as likely as that run time, if it leads beyond the age; where none does, evenly up to the
    limit. Shape (jobs,)."""
    possible = ratio_points(ratios)[None, :] * limits[:, None]
    sums = np.cumsum(chances[_bins(possible)] * (possible > ages[:, None]), axis=1)
    pick = np.argmax(sums > (chance * sums[:, -1])[:, None], axis=1)
    found = possible[np.arange(len(ages)), pick] - ages
    return np.where(sums[:, -1] > 0, found, chance * (limits - ages))


def _bins(seconds: Floats) -> Ints:
    found = np.log(np.maximum(seconds, SHORTEST) / SHORTEST) / np.log(GROWTH)
    return np.asarray(np.minimum(found.astype(np.int64), COUNT - 1))
