"""Asking for the start of every job that is submitted, and comparing with what came true.

A replay makes three calls: `submitted` when a job joins the queue, `started` when it first starts,
`ended` when it has ended; then `accuracy()` says how good the answers were. It knows what the
planner knows: limits, never durations of jobs that have not ended.
"""

from collections import deque
from dataclasses import dataclass, field, replace

from scheduler.core.decisions import Plan
from scheduler.core.forecast.accuracy import Accuracy, Asked, accuracy
from scheduler.core.forecast.calibration import LAST, Waits, calibrate
from scheduler.core.forecast.outlook import Outlook
from scheduler.core.forecast.queue_state import RECENT, queue_state
from scheduler.core.forecast.starts import RUNS, start_estimates
from scheduler.core.policy import Policy
from scheduler.core.values import ClusterSnapshot, PastRun, WaitingJob


@dataclass
class Forecaster:
    """Asks about every `every`-th job that does not start at once. `told`: what it answered, by
    job; a job without a basis is in `unknown`."""

    policy: Policy
    every: int = 1
    runs: int = RUNS
    seed: int = 0
    outlook: Outlook = field(default_factory=Outlook)
    told: dict[str, Asked] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    _started: dict[str, float] = field(default_factory=dict)
    _past: deque[PastRun] = field(default_factory=lambda: deque(maxlen=2 * RECENT))
    _waited: int = 0

    def submitted(self, job: WaitingJob, snapshot: ClusterSnapshot, found: Plan) -> None:
        """A job joined the queue; `found` is what the planner made of the snapshot."""
        gpus = float(job.device.gpus * job.replicas)
        self.outlook.submitted(job, gpus)
        if any(place.job == job.id for place in found.places):
            return
        self._waited += 1
        if self._waited % self.every == 0:
            self._ask(job, snapshot)

    def started(self, job: WaitingJob, now: int) -> None:
        """It started for the first time."""
        self._started[job.id] = now

    def ended(self, job: WaitingJob, now: int, ran_seconds: int) -> None:
        """It ended by itself after so much useful running time."""
        self.outlook.completed(job.id, ran_seconds)
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

    def accuracy(self) -> Accuracy | None:
        """Over the answers to jobs that have started; None where nobody waited a minute."""
        return accuracy(
            (asked.told, self._started[id] - asked.at)
            for id, asked in self.told.items()
            if id in self._started
        )

    def summary(self) -> dict[str, float]:
        """Accuracy by the names of a replay's answer; only the counts where nothing can be said."""
        found = self.accuracy()
        counts = {"eta_asked": found.asked if found else 0, "eta_unknown": len(self.unknown)}
        if found is None:
            return dict(counts)
        return counts | {
            "eta_coverage_pct": found.coverage_pct,
            "eta_median_error_pct": found.median_error_pct,
            "eta_tightness": found.tightness,
        }

    def _ask(self, job: WaitingJob, snapshot: ClusterSnapshot) -> None:
        """Who starts in this pass still waits in the snapshot, and starts at once in each run."""
        self._learn_ages(snapshot)
        snapshot = replace(snapshot, past=tuple(self._past))
        state = queue_state(snapshot, self.policy, self.outlook)
        now = float(snapshot.now)
        seed = self.seed + self._waited
        estimate = start_estimates(state, runs=self.runs, seed=seed, ask={job.id}).get(job.id)
        if estimate is None:
            self.unknown.append(job.id)
            return
        own = Waits(estimate.optimistic - now, estimate.expected - now, estimate.pessimistic - now)
        history = [
            asked.question(now, self._started.get(id))
            for id, asked in list(self.told.items())[-8 * LAST :]
        ]
        answer = calibrate(own, history)
        self.told[job.id] = Asked(now, own, answer.told, answer.calibrated)

    def _learn_ages(self, snapshot: ClusterSnapshot) -> None:
        now = snapshot.now
        for held in snapshot.running:
            ran = held.job.attained_seconds + max(0, now - held.started_at)
            self.outlook.attained(held.job.id, ran, now)
        for job in snapshot.jobs:
            if job.attained_seconds:
                self.outlook.attained(job.id, job.attained_seconds)
