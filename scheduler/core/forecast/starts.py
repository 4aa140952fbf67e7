"""When waiting jobs will start: the queue is run forward many times with sampled run times.

Each run draws the ends of running jobs and the run times of waiting and future ones from what was
learned, given their age, and future arrivals from the recent past; every run answers for all
waiting jobs. See jct_policies.md section 4. The draws follow from the seed alone.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from scheduler.core.forecast.hazard import BINS, Floats, Ints
from scheduler.core.forecast.queue_kernel import EASY, NONE, SKIP, Flags, run_queue
from scheduler.core.forecast.queue_values import QueueState, WaitingEntry
from scheduler.core.forecast.sampling import (
    JobColumns,
    run_time_chances,
    running_columns,
    sample_arrivals,
    sample_history,
    sample_remaining,
)
from scheduler.core.model.decisions import Estimate
from scheduler.core.model.message import Message, make_message
from scheduler.core.model.policy import BackfillMode

RUNS = 30
MIN_ENDED_RUNS = 30
"""So many ended runs at least: with fewer there is no estimate. A limit is one to five times a run
time, so the mean share of limits that is used is known to 10 % after 30 runs (its deviation is 0.55
of the mean), and the work that is left in a queue is limits times that share."""
STOPPING_SECONDS = 30.0
QUANTILES = (0.1, 0.5, 0.9)
"""Of the forecasts: the optimistic, the expected and the pessimistic start."""

_BACKFILL = {
    BackfillMode.NONE: NONE,
    BackfillMode.SKIP: SKIP,
    BackfillMode.EASY: EASY,
    BackfillMode.CONSERVATIVE: EASY,
}


@dataclass(frozen=True, slots=True)
class _Given:
    """What all runs share, as arrays."""

    state: QueueState
    jobs: JobColumns
    later: JobColumns
    came: JobColumns
    asked: Flags
    free: Ints
    pools: Flags
    held: tuple[Ints, Ints, Ints, Ints]
    ends_by_limit: Floats
    stopping: Flags
    curves: Floats
    ratios: Floats
    chances: Floats

    @classmethod
    def of(
        cls, state: QueueState, jobs: list[WaitingEntry], later: list[WaitingEntry], asked: Flags
    ) -> "_Given":
        entries = [entry for each in state.running for entry in each.places]
        counts = np.array([len(each.places) for each in state.running], dtype=np.int64)
        nodes = np.array([node for node, _ in entries], dtype=np.int64)
        units = np.array([amount for _, amount in entries], dtype=np.int64)
        left = [max(1.0, each.limit - each.age) for each in state.running]
        known = np.array(state.ratios).reshape(-1, 2)
        return cls(
            state=state,
            jobs=JobColumns.from_entries(jobs, state.now),
            later=JobColumns.from_entries(later, state.now),
            came=JobColumns.from_entries(list(state.arrivals), state.now),
            asked=asked,
            free=np.array(state.free, dtype=np.int64),
            pools=np.array(state.pools or [(True,) * len(state.total)], dtype=np.bool_),
            held=(np.cumsum(counts) - counts, counts, nodes, units),
            ends_by_limit=np.array(left),
            stopping=np.array([each.stopping for each in state.running], dtype=np.bool_),
            curves=np.array(state.curves).reshape(-1, BINS),
            ratios=known,
            chances=run_time_chances(known, [*state.running, *state.waiting]),
        )


@dataclass(frozen=True, slots=True)
class SimulatedStarts:
    """Seconds from now by run and waiting job, shape (runs, jobs); infinite for a job that could
    not even start on an empty cluster, and for those that nobody asked about."""

    ids: tuple[str, ...]
    starts: Floats
    basis: Message


def start_estimates(
    state: QueueState, *, runs: int = RUNS, seed: int = 0, only: Collection[str] | None = None
) -> dict[str, Estimate | None]:
    """(optimistic, expected, pessimistic) = the 10, 50 and 90 % points of the forecast starts, for
    all waiting jobs or those in `ask`. None where there is no basis: fewer than BASIS runs have
    ended, or a job that does not fit at all."""
    found = simulate_starts(state, runs=runs, seed=seed, only=only)
    asked = [each.id for each in state.waiting if only is None or each.id in only]
    if found is None:
        return dict.fromkeys(asked)
    answers: dict[str, Estimate | None] = dict.fromkeys(asked)
    certain = np.flatnonzero(np.isfinite(found.starts).all(axis=0))
    certain = certain[np.array([found.ids[column] in answers for column in certain], np.bool_)]
    if not len(certain):
        return answers
    points = state.now + np.quantile(found.starts[:, certain], QUANTILES, axis=0).T
    for column, (low, middle, high) in zip(certain, points.tolist(), strict=True):
        answers[found.ids[column]] = Estimate(round(low), round(middle), round(high), found.basis)
    return answers


def simulate_starts(
    state: QueueState, *, runs: int = RUNS, seed: int = 0, only: Collection[str] | None = None
) -> SimulatedStarts | None:
    """Every run's starts; None where fewer than BASIS runs have ended."""
    if state.ended_runs < MIN_ENDED_RUNS:
        return None
    fitting = [each for each in state.waiting if _fits_empty(each, state)]
    due = [each for each in fitting if each.begin_at <= state.now]
    later = [each for each in fitting if each.begin_at > state.now]
    jobs = [*due, *later]
    asked = np.array([only is None or each.id in only for each in jobs], dtype=np.bool_)
    draws = np.random.default_rng(seed)
    starts = np.full((runs, len(jobs)), np.inf)
    if asked.any():
        given = _Given.of(state, due, later, asked)
        for run in range(runs):
            starts[run] = _one(given, draws)
    return SimulatedStarts(tuple(each.id for each in jobs), starts, _basis(state, runs))


def _basis(state: QueueState, runs: int) -> Message:
    limits = sum(each.curve < 0 for each in state.running)
    return make_message("basis.forecasts", runs=runs, ended=state.ended_runs, limits=limits)


def _fits_empty(each: WaitingEntry, state: QueueState) -> bool:
    here = state.pools[each.pool] if state.pools else (True,) * len(state.total)
    fits = (units // each.units for units, may in zip(state.total, here, strict=True) if may)
    return sum(fits) >= each.replicas


def _one(given: _Given, draws: np.random.Generator) -> Floats:
    """Starts of one run, in seconds from now: who waits, then who may only start later. Shape
    (jobs,)."""
    state, chances = given.state, given.chances
    ratios = sample_history(given.ratios, draws)
    ends = sample_remaining(*running_columns(state.running), given.curves, ratios, chances, draws)
    ends = np.where(given.stopping, np.minimum(ends, STOPPING_SECONDS), ends)
    picks, at = sample_arrivals(given.came.order[:, 1], draws)
    due = len(given.jobs.rows)
    future, place = given.later.concatenated(given.came.of_future(picks, at)).sorted_by_time()
    jobs = given.jobs.concatenated(future)
    if state.by_arrival:
        jobs.order[:, 0] = jobs.order[:, 1]
    own = np.concatenate([np.arange(due), due + place[: len(given.later.rows)]])
    asked = np.zeros(len(jobs.rows), np.bool_)
    asked[own] = given.asked
    found = run_queue(
        given.free.copy(),
        given.pools,
        given.held,
        ends,
        given.ends_by_limit,
        jobs.shapes,
        jobs.order,
        sample_remaining(jobs.ages, jobs.limits, jobs.rows, given.curves, ratios, chances, draws),
        due,
        asked,
        float(state.patience_seconds),
        _BACKFILL[state.backfill],
    )
    return np.asarray(found[own])
