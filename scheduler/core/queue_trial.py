"""Tries one more job against a finished pass, without another pass over the whole queue.

    trial = QueueTrial(snapshot, policy, runtime_model)    # one pass over the queue
    trial.try_job(job).placement                           # as the next pass would decide
    trial.try_job(job).reason                              # if it would not start

The job joins right after the pass. Jobs that the pass started hold their places. Of those that
still wait, only the ones with something set aside matter to a new job: a reservation, room that
running jobs leave, reserved quota. A trial pass therefore has just these and the new job, and
decides as a pass over all jobs would (`tests/property/core/test_queue_trial.py`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from scheduler.core.model.decisions import JobPlacement
from scheduler.core.model.policy import Policy
from scheduler.core.model.reasons import Reason
from scheduler.core.model.snapshot import ClusterSnapshot, WaitingJob
from scheduler.core.pass_cache import PassCache
from scheduler.core.placement.search import GangPlacement
from scheduler.core.plan import Pass
from scheduler.core.queue.order import WorkEstimator
from scheduler.core.queue.reservation import reserve_placement
from scheduler.core.queue.running import RunningJobs


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What the next pass would decide about the tried job."""

    placement: JobPlacement | None
    """It would start at once."""
    reason: Reason | None
    """Why it would wait."""
    starts_at: int | None
    """Its reserved start, if it would wait with a reservation."""
    can_start: Callable[[WaitingJob], bool]
    """Whether it would start with the request of the given job, which has its id. Valid until the
    next trial."""


class QueueTrial:
    """The queue as one pass left it; `plan` is the plan of that pass. One trial at a time."""

    def __init__(
        self, snapshot: ClusterSnapshot, policy: Policy, runtime_model: WorkEstimator
    ) -> None:
        self._policy, self._runtime_model, self._cache = policy, runtime_model, PassCache()
        first = Pass(snapshot, policy, runtime_model, self._cache)
        self.plan = first.run()
        jobs = {job.id: job for job in snapshot.jobs}
        self.places = first.places
        placed = {placement.job: placement for placement in self.plan.placements}
        self._placed = [
            (jobs[id], GangPlacement(list(placement.replicas))) for id, placement in placed.items()
        ]
        holding = first.state.jobs_that_hold() - placed.keys()
        self._ahead = tuple(job for job in snapshot.jobs if job.id in holding)
        self._waiting_owners = {
            (job.project, job.user) for job in snapshot.jobs if job.id not in placed
        }
        self._snapshot = snapshot
        self._running: RunningJobs | None = None
        """With those that the pass placed; made by the first trial of an owner who waits."""
        self._hold_placed()

    def _hold_placed(self) -> None:
        """Have the ledger keep what the pass placed, so that no trial does it again."""
        ledger, _ = self._cache.prepare(self._snapshot)
        for job, placement in self._placed:
            reserve_placement(ledger, job, placement)
        ledger.keep_reservations()

    def try_job(self, job: WaitingJob) -> TrialResult:
        """What the next pass would decide if the job joined the queue now."""
        done = self._pass([job])
        state = done.state
        placement = next((each for each in state.placements if each.job == job.id), None)
        reason = next((each.reason for each in state.deferrals if each.job == job.id), None)
        starts_at = {each.job: each.starts_at for each in state.reservations.decisions()}
        return TrialResult(placement, reason, starts_at.get(job.id), done.can_start)

    def can_start(self, jobs: Iterable[WaitingJob]) -> list[bool]:
        """Whether each of them would start at once, alone and as the last of the queue."""
        done = self._pass([])
        return [done.can_start(job) for job in jobs]

    def _pass(self, jobs: list[WaitingJob]) -> Pass:
        snapshot = replace(self._snapshot, jobs=(*self._ahead, *jobs))
        owners = self._waiting_owners | {(job.project, job.user) for job in jobs}
        # Ranks depend on who waits.
        has_same_owners = len(owners) == len(self._waiting_owners)
        running = self._running if has_same_owners else None
        done = Pass(snapshot, self._policy, self._runtime_model, self._cache, owners, running)
        if running is None:
            for job, placement in self._placed:
                done.assume_started(job, placement)
            if has_same_owners:
                self._running = done.state.running.with_allocated(done.state.allocated)
        done.walk()
        return done
