"""When waiting jobs will start: the queue is simulated many times with sampled run times.

Each run draws the ends of running jobs and the run times of waiting and future ones from the
runtime model, given their age, and future arrivals from the recent past. One run gives a start to
every waiting job. The seed alone decides the draws. See docs/research/start-estimates.md.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from agents.contract.message import Message
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
from scheduler.core.model.message_templates import make_message
from scheduler.core.model.policy import BackfillMode

RUNS = 30
# With fewer ended runs there is no estimate. A limit is one to five times a run time, so the mean
# part of limits that is used is known to 10 % after 30 runs (its deviation is 0.55 of the mean),
# and the work left in a queue is limits times that part.
MIN_ENDED_RUNS = 30
STOPPING_SECONDS = 30.0
# Of the simulated starts: the optimistic, the expected and the pessimistic one.
QUANTILES = (0.1, 0.5, 0.9)

_BACKFILL = {
    BackfillMode.NONE: NONE,
    BackfillMode.SKIP: SKIP,
    BackfillMode.EASY: EASY,
    BackfillMode.CONSERVATIVE: EASY,
}


@dataclass(frozen=True, slots=True)
class _SharedInputs:
    """The inputs of all runs, as arrays."""

    state: QueueState
    jobs: JobColumns
    later: JobColumns
    recent: JobColumns
    requested: Flags
    free: Ints
    pools: Flags
    allocations: tuple[Ints, Ints, Ints, Ints]
    ends_by_limit: Floats
    stopping: Flags
    curves: Floats
    ratios: Floats
    chances: Floats

    @classmethod
    def from_state(
        cls,
        state: QueueState,
        jobs: list[WaitingEntry],
        later: list[WaitingEntry],
        requested: Flags,
    ) -> "_SharedInputs":
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
            recent=JobColumns.from_entries(list(state.arrivals), state.now),
            requested=requested,
            free=np.array(state.free, dtype=np.int64),
            pools=np.array(state.pools or [(True,) * len(state.total)], dtype=np.bool_),
            allocations=(np.cumsum(counts) - counts, counts, nodes, units),
            ends_by_limit=np.array(left),
            stopping=np.array([each.stopping for each in state.running], dtype=np.bool_),
            curves=np.array(state.curves).reshape(-1, BINS),
            ratios=known,
            chances=run_time_chances(known, [*state.running, *state.waiting]),
        )


@dataclass(frozen=True, slots=True)
class SimulatedStarts:
    ids: tuple[str, ...]
    starts: Floats
    """Seconds from now, shape (runs, jobs). Infinite for a job that was not requested or does not
    even fit on an empty cluster."""
    basis: Message


def start_estimates(
    state: QueueState, *, runs: int = RUNS, seed: int = 0, only: Collection[str] | None = None
) -> dict[str, Estimate | None]:
    """The 10, 50 and 90 % points of the simulated starts, by id of all waiting jobs or those in
    `only`. None without a basis: fewer than MIN_ENDED_RUNS, or a job that does not fit at all."""
    simulated = simulate_starts(state, runs=runs, seed=seed, only=only)
    requested = [each.id for each in state.waiting if only is None or each.id in only]
    if simulated is None:
        return dict.fromkeys(requested)
    estimates: dict[str, Estimate | None] = dict.fromkeys(requested)
    certain = np.flatnonzero(np.isfinite(simulated.starts).all(axis=0))
    certain = certain[
        np.array([simulated.ids[column] in estimates for column in certain], np.bool_)
    ]
    if not len(certain):
        return estimates
    points = state.now + np.quantile(simulated.starts[:, certain], QUANTILES, axis=0).T
    for column, (low, middle, high) in zip(certain, points.tolist(), strict=True):
        estimates[simulated.ids[column]] = Estimate(
            round(low), round(middle), round(high), simulated.basis
        )
    return estimates


def simulate_starts(
    state: QueueState, *, runs: int = RUNS, seed: int = 0, only: Collection[str] | None = None
) -> SimulatedStarts | None:
    """The starts of every run; None if fewer than MIN_ENDED_RUNS runs have ended."""
    if state.ended_runs < MIN_ENDED_RUNS:
        return None
    fitting = [each for each in state.waiting if _fits_empty(each, state)]
    due = [each for each in fitting if each.begin_at <= state.now]
    later = [each for each in fitting if each.begin_at > state.now]
    jobs = [*due, *later]
    requested = np.array([only is None or each.id in only for each in jobs], dtype=np.bool_)
    draws = np.random.default_rng(seed)
    starts = np.full((runs, len(jobs)), np.inf)
    if requested.any():
        inputs = _SharedInputs.from_state(state, due, later, requested)
        for run in range(runs):
            starts[run] = _simulate_once(inputs, draws)
    return SimulatedStarts(tuple(each.id for each in jobs), starts, _basis(state, runs))


def _basis(state: QueueState, runs: int) -> Message:
    limits = sum(each.curve < 0 for each in state.running)
    return make_message("basis.forecasts", runs=runs, ended=state.ended_runs, limits=limits)


def _fits_empty(each: WaitingEntry, state: QueueState) -> bool:
    here = state.pools[each.pool] if state.pools else (True,) * len(state.total)
    fits = (units // each.units for units, may in zip(state.total, here, strict=True) if may)
    return sum(fits) >= each.replicas


def _simulate_once(inputs: _SharedInputs, draws: np.random.Generator) -> Floats:
    """Starts of one run, in seconds from now: jobs that may start now, then those that may only
    start later. Shape (jobs,)."""
    state, chances = inputs.state, inputs.chances
    ratios = sample_history(inputs.ratios, draws)
    ends = sample_remaining(*running_columns(state.running), inputs.curves, ratios, chances, draws)
    ends = np.where(inputs.stopping, np.minimum(ends, STOPPING_SECONDS), ends)
    picks, at = sample_arrivals(inputs.recent.order[:, 1], draws)
    due = len(inputs.jobs.rows)
    future, place = inputs.later.concatenated(inputs.recent.of_future(picks, at)).sorted_by_time()
    jobs = inputs.jobs.concatenated(future)
    if state.by_arrival:
        jobs.order[:, 0] = jobs.order[:, 1]
    own = np.concatenate([np.arange(due), due + place[: len(inputs.later.rows)]])
    requested = np.zeros(len(jobs.rows), np.bool_)
    requested[own] = inputs.requested
    simulated = run_queue(
        inputs.free.copy(),
        inputs.pools,
        inputs.allocations,
        ends,
        inputs.ends_by_limit,
        jobs.shapes,
        jobs.order,
        sample_remaining(jobs.ages, jobs.limits, jobs.rows, inputs.curves, ratios, chances, draws),
        due,
        requested,
        float(state.patience_seconds),
        _BACKFILL[state.backfill],
    )
    return np.asarray(simulated[own])
