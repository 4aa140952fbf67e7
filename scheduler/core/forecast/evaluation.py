"""Asking for the start of every job that is submitted, and comparing with what came true.

A replay calls `submitted` when a job joins the queue, `passed` with every pass of the planner,
`started` when a job first starts, `ended` when it has ended; then `accuracy()` says how good the
answers were. It knows what the planner knows: limits, never durations of jobs that have not ended.
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
    """Asks about every `every`-th job that does not start at once.

    Without a basis a question stays open, and is asked again in the first pass that has one: that
    answer counts. `told`: what it answered, by job; `without_basis`: whose first question got no
    answer; who started without any is in that, too, and not in `told`."""

    policy: Policy
    every: int = 1
    runs: int = RUNS
    seed: int = 0
    outlook: RuntimeModel = field(default_factory=RuntimeModel)
    estimates: dict[str, EvaluatedEstimate] = field(default_factory=dict)
    without_basis: set[str] = field(default_factory=set)
    _open: set[str] = field(default_factory=set)
    _started: dict[str, float] = field(default_factory=dict)
    _past: deque[PastRun] = field(default_factory=lambda: deque(maxlen=2 * RECENT_ARRIVALS))
    _waited: int = 0

    def on_submit(self, job: WaitingJob, snapshot: ClusterSnapshot, found: Plan) -> None:
        """A job joined the queue; `found` is what the planner made of the snapshot."""
        gpus = float(job.device.gpus * job.replicas)
        self.outlook.add_job(job, gpus)
        if any(place.job == job.id for place in found.placements):
            return
        self._waited += 1
        if self._waited % self.every == 0:
            self._open.add(job.id)

    def on_pass(self, snapshot: ClusterSnapshot, found: Plan) -> None:
        """A pass of the planner, after the jobs that are new in it were told to `submitted`."""
        ask = self._open - {place.job for place in found.placements}
        if not ask:
            return
        if self.outlook.runs < MIN_ENDED_RUNS:
            self.without_basis |= ask
        else:
            self._ask(ask, snapshot)

    def on_start(self, job: WaitingJob, now: int) -> None:
        """It started for the first time."""
        self._started[job.id] = now
        self._open.discard(job.id)

    def on_end(self, job: WaitingJob, now: int, ran_seconds: int) -> None:
        """It ended by itself after so much useful running time."""
        self.outlook.complete(job.id, ran_seconds)
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
        """Over the answers to jobs that have started; None where nobody waited a minute."""
        return forecast_accuracy(
            (asked.published, self._started[id] - asked.at)
            for id, asked in self.estimates.items()
            if id in self._started
        )

    def summary(self) -> dict[str, float]:
        """Accuracy by the names of a replay's answer; only the counts where nothing can be said.

        `eta_asked`: answers to jobs that then waited a minute or more. `eta_no_basis`: questions
        whose first answer was that there is no basis. `eta_never_answered`: those of them whose job
        started, or never did, before there was one."""
        found = self.accuracy()
        counts = {
            "eta_asked": found.estimates if found else 0,
            "eta_no_basis": len(self.without_basis),
            "eta_never_answered": len(self.without_basis - self.estimates.keys()),
        }
        if found is None:
            return dict(counts)
        return counts | {
            "eta_coverage_pct": found.coverage_pct,
            "eta_median_error_pct": found.median_error_pct,
            "eta_tightness": found.tightness,
        }

    def _ask(self, ask: set[str], snapshot: ClusterSnapshot) -> None:
        """Who starts in this pass still waits in the snapshot, and starts at once in each run. Who
        had to wait for a basis corrects nobody, see `of_pass.LATE_SECONDS`."""
        self._learn_ages(snapshot)
        snapshot = replace(snapshot, history=tuple(self._past))
        state = queue_state(snapshot, self.policy, self.outlook)
        now = float(snapshot.now)
        seed = self.seed + self._waited
        estimates = start_estimates(state, runs=self.runs, seed=seed, only=ask)
        history = [
            asked.record(now, self._started.get(id))
            for id, asked in list(self.estimates.items())[-8 * MAX_RECORDS :]
            if id not in self.without_basis
        ]
        corrections = Corrections.from_records(history)
        for id, found in estimates.items():
            if found is None:
                self.without_basis.add(id)
                continue
            own = WaitRange(found.optimistic - now, found.expected - now, found.pessimistic - now)
            answer = corrections.apply(own)
            self.estimates[id] = EvaluatedEstimate(now, own, answer.published, answer.calibrated)
            self._open.discard(id)

    def _learn_ages(self, snapshot: ClusterSnapshot) -> None:
        now = snapshot.now
        for held in snapshot.running:
            ran = held.job.attained_seconds + max(0, now - held.started_at)
            self.outlook.update_attained(held.job.id, ran, now)
        for job in snapshot.jobs:
            if job.attained_seconds:
                self.outlook.update_attained(job.id, job.attained_seconds)
