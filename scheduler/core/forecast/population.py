"""The distribution of run times, estimated from all known time limits. Seconds throughout.

A limit is a run time times a safety factor of its user. Ended runs alone are biased: the long ones
have not ended yet, so for long limits the used part looks larger than it is. The limits of waiting
and running jobs are known, though, so expectation maximisation finds the run times behind them (an
empirical Bayes deconvolution of limits by the ratios of ended runs). The chance of a run time under
a limit is then that of the ratio times that of the run time.
"""

import numpy as np

from scheduler.core.forecast.hazard import Floats, Ints

SHORTEST = 10.0
GROWTH = 1.25
# Bins of run times from SHORTEST on, each GROWTH times as long: up to seven years.
COUNT = 76
ROUNDS = 10
# The ratios of ended runs are reduced to this many points.
POINTS = 50
# This part of the run times is spread evenly over all bins.
UNSEEN = 0.02
SMOOTH = (0.25, 0.5, 0.25)


def ratio_points(ratios: Floats) -> Floats:
    """The middles of POINTS equal parts of the ratios, or all ratios if there are fewer."""
    if len(ratios) <= POINTS:
        return np.sort(ratios)
    return np.asarray(np.quantile(ratios, (np.arange(POINTS) + 0.5) / POINTS))


def run_time_distribution(ran: Floats, ratios: Floats, limits: Floats, ages: Floats) -> Floats:
    """The chance of each bin of run times, over ended jobs and others.

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
    """The remaining seconds of each job, drawn by `chance` in [0, 1): one of the ratios times its
    limit, each as likely as that run time, if that is beyond its age; if none is, uniform up to the
    limit. Shape (jobs,)."""
    possible = ratio_points(ratios)[None, :] * limits[:, None]
    sums = np.cumsum(chances[_bins(possible)] * (possible > ages[:, None]), axis=1)
    pick = np.argmax(sums > (chance * sums[:, -1])[:, None], axis=1)
    found = possible[np.arange(len(ages)), pick] - ages
    return np.where(sums[:, -1] > 0, found, chance * (limits - ages))


def _bins(seconds: Floats) -> Ints:
    found = np.log(np.maximum(seconds, SHORTEST) / SHORTEST) / np.log(GROWTH)
    return np.asarray(np.minimum(found.astype(np.int64), COUNT - 1))
