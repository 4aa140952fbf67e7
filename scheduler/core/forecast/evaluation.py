"""Evaluates start estimates during a replay, by comparing them with the starts of the jobs.

The replay calls `on_submit` when a job joins the queue, `on_pass` with every planning pass,
`on_start` when a job first starts, and `on_end` when it has ended; `accuracy()` then says how good
the estimates were. It knows what the planner knows: limits, but no duration of an unfinished job.
"""

from collections import deque
from dataclasses import dataclass, field, replace

from scheduler.core.forecast.accuracy import EvaluatedEstimate, ForecastAccuracy, forecast_accuracy
from scheduler.core.forecast.calibration import MAX_RECORDS, Corrections, WaitRange
from scheduler.core.forecast.queue_state import RECENT_ARRIVALS, queue_state
from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.forecast.starts import MIN_ENDED_RUNS, RUNS, start_estimates
from scheduler.core.model.decisions import Plan
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import ClusterSnapshot, PastRun, WaitingJob


@dataclass
class ForecastEvaluation:
    """Estimates every `every`-th job that does not start at once.

    A job without a basis stays open and is tried again in every pass until there is one; that
    estimate counts."""

    policy: Policy
    every: int = 1
    runs: int = RUNS
    seed: int = 0
    runtime_model: RuntimeModel = field(default_factory=RuntimeModel)
    estimates: dict[str, EvaluatedEstimate] = field(default_factory=dict)
    """By job id."""
    without_estimate: set[str] = field(default_factory=set)
    """Jobs that had no basis when first tried, also those that got an estimate later."""
    _open: set[str] = field(default_factory=set)
    _started: dict[str, float] = field(default_factory=dict)
    _past: deque[PastRun] = field(default_factory=lambda: deque(maxlen=2 * RECENT_ARRIVALS))
    _waited: int = 0

    def on_submit(self, job: WaitingJob, snapshot: ClusterSnapshot, plan: Plan) -> None:
        """A job joined the queue; `plan`: of a pass over `snapshot`."""
        gpus = float(job.device.gpus * job.replicas)
        self.runtime_model.add_job(job, gpus)
        if any(place.job == job.id for place in plan.placements):
            return
        self._waited += 1
        if self._waited % self.every == 0:
            self._open.add(job.id)

    def on_pass(self, snapshot: ClusterSnapshot, plan: Plan) -> None:
        """A planning pass, after `on_submit` for the jobs that are new in it."""
        due = self._open - {place.job for place in plan.placements}
        if not due:
            return
        if self.runtime_model.runs < MIN_ENDED_RUNS:
            self.without_estimate |= due
        else:
            self._estimate(due, snapshot)

    def on_start(self, job: WaitingJob, now: int) -> None:
        """The job started for the first time."""
        self._started[job.id] = now
        self._open.discard(job.id)

    def on_end(self, job: WaitingJob, now: int, ran_seconds: int) -> None:
        """The job ended by itself after `ran_seconds` of useful running time."""
        self.runtime_model.complete(job.id, ran_seconds)
        self._past.append(
            PastRun(
                project=job.project,
                user=job.user,
                group=job.group,
                gpus=job.device.gpus * job.replicas,
                limit_seconds=job.time_limit_seconds,
                limit_is_chosen=job.limit_is_chosen,
                ran_seconds=ran_seconds,
                completed=True,
                ended_at=now,
                queued_at=job.queued_at,
            )
        )

    def accuracy(self) -> ForecastAccuracy | None:
        """Over the estimates of jobs that have started; None if no job waited a minute."""
        return forecast_accuracy(
            (estimate.published, self._started[id] - estimate.at)
            for id, estimate in self.estimates.items()
            if id in self._started
        )

    def summary(self) -> dict[str, float]:
        """Accuracy under the keys of a replay's JSON; only the counts if it is unknown.

        `eta_asked`: estimates of jobs that then waited a minute or more. `eta_no_basis`: jobs that
        had no basis when first tried. `eta_never_answered`: those of them that never got an
        estimate."""
        found = self.accuracy()
        counts = {
            "eta_asked": found.estimates if found else 0,
            "eta_no_basis": len(self.without_estimate),
            "eta_never_answered": len(self.without_estimate - self.estimates.keys()),
        }
        if found is None:
            return dict(counts)
        return counts | {
            "eta_coverage_pct": found.coverage_pct,
            "eta_median_error_pct": found.median_error_pct,
            "eta_tightness": found.tightness,
        }

    def _estimate(self, due: set[str], snapshot: ClusterSnapshot) -> None:
        """Jobs that start in this pass still wait in the snapshot; they start at once in each run.
        Estimates that had to wait for a basis correct no others, see
        `pass_estimates.LATE_SECONDS`."""
        self._learn_ages(snapshot)
        snapshot = replace(snapshot, history=tuple(self._past))
        state = queue_state(snapshot, self.policy, self.runtime_model)
        now = float(snapshot.now)
        seed = self.seed + self._waited
        estimates = start_estimates(state, runs=self.runs, seed=seed, only=due)
        records = [
            estimate.record(now, self._started.get(id))
            for id, estimate in list(self.estimates.items())[-8 * MAX_RECORDS :]
            if id not in self.without_estimate
        ]
        corrections = Corrections.from_records(records)
        for id, found in estimates.items():
            if found is None:
                self.without_estimate.add(id)
                continue
            own = WaitRange(found.optimistic - now, found.expected - now, found.pessimistic - now)
            corrected = corrections.apply(own)
            self.estimates[id] = EvaluatedEstimate(
                now, own, corrected.published, corrected.calibrated
            )
            self._open.discard(id)

    def _learn_ages(self, snapshot: ClusterSnapshot) -> None:
        now = snapshot.now
        for held in snapshot.running:
            ran = held.job.attained_seconds + max(0, now - held.started_at)
            self.runtime_model.update_attained(held.job.id, ran, now)
        for job in snapshot.jobs:
            if job.attained_seconds:
                self.runtime_model.update_attained(job.id, job.attained_seconds)
