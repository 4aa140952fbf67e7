"""Samples what is unknown: how long jobs still run, and which jobs arrive. Seconds throughout."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scheduler.core.forecast.hazard import BINS, EDGES, Floats, Ints
from scheduler.core.forecast.population import remaining, run_time_distribution
from scheduler.core.forecast.queue_values import RunningEntry, WaitingEntry

# Arrivals in each simulation run.
FUTURE_ARRIVALS = 300
# Each run draws its arrivals from at least this many of the newest ones.
MIN_ARRIVAL_WINDOW = 20
# Arrivals observed for less than this are no evidence for future ones: people often submit many
# jobs at once.
MIN_ARRIVAL_SPAN = 3_600.0
# With fewer known ratios of run time to limit, no limit is used.
MIN_RATIOS = 10
# With fewer known ratios, a run resamples them; with more, it takes one section of the history.
MANY_RATIOS = 100
# How much of a long history one run uses.
HISTORY_PART = (0.3, 1.0)
# This many ended runs with the same limit suffice to estimate its ratio.
SAME_LIMIT_RUNS = 40


@dataclass(frozen=True, slots=True)
class JobColumns:
    """Jobs by column; the first axis is the job."""

    ages: Floats
    limits: Floats
    rows: Ints
    """Rows of their hazards; -1: by ratio."""
    shapes: Ints
    """(jobs, 3): replicas, units, pool."""
    order: Floats
    """(jobs, 5): key, queued at, band, remaining limit, may start at; times from now."""

    @classmethod
    def from_entries(cls, queued: list[WaitingEntry], now: float) -> "JobColumns":
        left = [max(1.0, each.limit - each.age) for each in queued]
        return cls(
            ages=np.array([each.age for each in queued], dtype=np.float64),
            limits=np.array([each.limit for each in queued], dtype=np.float64),
            rows=np.array([each.curve for each in queued], dtype=np.int64),
            shapes=np.array(
                [(each.replicas, each.units, each.pool) for each in queued], dtype=np.int64
            ).reshape(-1, 3),
            order=np.array(
                [
                    (each.key, each.queued_at - now, each.band, limit, each.begin_at - now)
                    for each, limit in zip(queued, left, strict=True)
                ],
                dtype=np.float64,
            ).reshape(-1, 5),
        )

    def of_future(self, picks: Ints, at: Floats) -> "JobColumns":
        """These jobs as new arrivals, queued at these times, with age 0."""
        again = self.picked(picks)
        again.ages[:] = 0.0
        again.order[:, 1] = again.order[:, 4] = at
        again.order[:, 3] = np.maximum(1.0, again.limits)
        return again

    def picked(self, picks: Ints) -> "JobColumns":
        """A copy of these rows, in that order."""
        return JobColumns(
            ages=self.ages[picks],
            limits=self.limits[picks],
            rows=self.rows[picks],
            shapes=self.shapes[picks],
            order=self.order[picks],
        )

    def concatenated(self, others: "JobColumns") -> "JobColumns":
        """These, followed by the others."""
        return JobColumns(
            ages=np.concatenate([self.ages, others.ages]),
            limits=np.concatenate([self.limits, others.limits]),
            rows=np.concatenate([self.rows, others.rows]),
            shapes=np.concatenate([self.shapes, others.shapes]),
            order=np.concatenate([self.order, others.order]),
        )

    def sorted_by_time(self) -> tuple["JobColumns", Ints]:
        """Sorted by when they may start, and the new position of each."""
        by_time = np.argsort(self.order[:, 4], kind="stable")
        place = np.empty_like(by_time)
        place[by_time] = np.arange(len(by_time))
        return self.picked(by_time), place


def sample_arrivals(times: Floats, draws: np.random.Generator) -> tuple[Ints, Floats]:
    """(index of a recent arrival, seconds from now) of the next FUTURE_ARRIVALS, drawn from
    a random window of the newest ones, with their gaps, at the rate seen until now. `times`: of the
    recent arrivals, ascending, at most 0. Nothing if the first came less than MIN_ARRIVAL_SPAN ago.
    """
    first = max(0, len(times) - int(draws.integers(MIN_ARRIVAL_WINDOW, 201)))
    known = times[first:]
    if len(known) < 2 or times[0] > -MIN_ARRIVAL_SPAN:
        return np.zeros(0, np.int64), np.zeros(0)
    gaps = np.diff(known)
    seen = -float(known[0])
    picks = draws.integers(1, len(known), FUTURE_ARRIVALS)
    if gaps.sum() > 0:
        waits = gaps[picks - 1] * (seen / float(gaps.sum()))
    else:
        waits = draws.exponential(seen / len(known), FUTURE_ARRIVALS)
    return first + picks, np.maximum(1e-3, np.cumsum(waits))


def running_columns(running: tuple[RunningEntry, ...]) -> tuple[Floats, Floats, Ints]:
    """(ages, limits, rows) of running jobs."""
    return (
        np.array([each.age for each in running], dtype=np.float64),
        np.array([each.limit for each in running], dtype=np.float64),
        np.array([each.curve for each in running], dtype=np.int64),
    )


def run_time_chances(history: Floats, jobs: Iterable[RunningEntry | WaitingEntry]) -> Floats:
    """The chances of run times, from ended runs and the believable limits of other jobs."""
    by_limit = [(each.limit, each.age) for each in jobs if each.curve < 0]
    others = np.array(by_limit, dtype=np.float64).reshape(-1, 2)
    ratios = history[:, 1] if len(history) else np.ones(1)
    return run_time_distribution(history[:, 0] * history[:, 1], ratios, others[:, 0], others[:, 1])


def sample_history(history: Floats, draws: np.random.Generator) -> Floats:
    """The part of the known (limit, ratio) that one run uses, sorted by limit. Of MANY_RATIOS up:
    30 to 100 % of them, in one section. Of fewer: as many, drawn with replacement, so that runs
    differ by as much as a small sample may be wrong. Shape (ended runs, 2)."""
    if len(history) < MANY_RATIOS:
        part = history[np.sort(draws.integers(0, max(1, len(history)), len(history)))]
    else:
        size = int(len(history) * draws.uniform(*HISTORY_PART))
        first = draws.integers(0, len(history) - size + 1)
        part = history[first : first + size]
    return np.asarray(part[np.argsort(part[:, 0], kind="stable")])


def sample_remaining(
    ages: Floats,
    limits: Floats,
    rows: Ints,
    curves: Floats,
    ratios: Floats,
    chances: Floats,
    draws: np.random.Generator,
) -> Floats:
    """How long each job still runs: at least 1 second, at most to its limit. `chances` of run
    times as in population.py. Shape (jobs,)."""
    chance = draws.random(len(rows))
    left = np.maximum(1.0, limits - ages)
    by_limit = rows < 0
    found = np.empty(len(rows))
    if by_limit.any():
        own_limits = limits[by_limit]
        found[by_limit] = remaining_by_ratio(
            ages[by_limit], own_limits, ratios, chances, chance[by_limit]
        )
    if not by_limit.all():
        own = curves[rows[~by_limit]]
        found[~by_limit] = remaining_by_curve(ages[~by_limit], own, chance[~by_limit])
    return np.clip(found, 1.0, left)


def remaining_by_ratio(
    ages: Floats, limits: Floats, history: Floats, chances: Floats, chance: Floats
) -> Floats:
    """Ratio times limit, less the age. If SAME_LIMIT_RUNS ended runs had that limit, the ratio is
    one of the newest of these that end beyond the age (uniform up to the limit if none does);
    otherwise see `population.remaining`.

    history: (runs, 2) limit and ratio, sorted by limit, then by time."""
    right = np.searchsorted(history[:, 0], limits, side="right")
    same = right - np.searchsorted(history[:, 0], limits, side="left") >= SAME_LIMIT_RUNS
    found = np.empty(len(ages))
    found[~same] = remaining(ages[~same], limits[~same], history[:, 1], chances, chance[~same])
    if same.any():
        first = right[same] - SAME_LIMIT_RUNS
        ratios = history[:, 1][first[:, None] + np.arange(SAME_LIMIT_RUNS)[None, :]]
        found[same] = _one_of(ratios, ages[same], limits[same], chance[same])
    return found


def _one_of(ratios: Floats, ages: Floats, limits: Floats, chance: Floats) -> Floats:
    """ratios: (jobs, NEAR), each as likely as the others."""
    beyond = np.cumsum(ratios > (ages / limits)[:, None], axis=1)
    target = (chance * beyond[:, -1]).astype(np.int64)
    pick = np.argmax(beyond > target[:, None], axis=1)
    by_run = ratios[np.arange(len(ages)), pick] * limits - ages
    return np.where(beyond[:, -1] > 0, by_run, chance * (limits - ages))


def remaining_by_curve(ages: Floats, curves: Floats, chance: Floats) -> Floats:
    """From the hazards of the remaining bins, uniform within a bin. curves: (jobs, BINS)."""
    own = np.searchsorted(EDGES[:-1], ages, side="right") - 1
    risk = np.where(np.arange(BINS)[None, :] < own[:, None], 0.0, curves)
    rows = np.arange(len(ages))
    part = (np.minimum(ages, EDGES[own + 1]) - EDGES[own]) / (EDGES[own + 1] - EDGES[own])
    here = risk[rows, own]
    risk[rows, own] = here * (1 - part) / np.maximum(1 - here * part, 1e-12)
    risk[:, -1] = 1.0
    alive = np.cumprod(1.0 - risk, axis=1)
    found = (alive > 1.0 - chance[:, None]).sum(axis=1).clip(max=BINS - 1)
    before = np.where(found > 0, alive[rows, found - 1], 1.0)
    into = (before - (1.0 - chance)) / np.maximum(before - alive[rows, found], 1e-12)
    low = np.maximum(ages, EDGES[found])
    found_at = low + np.clip(into, 0.0, 1.0) * np.maximum(0.0, EDGES[found + 1] - low)
    return np.asarray(found_at - ages)
