"""The jobs that have devices allocated: when each ends at the latest, and which may be stopped."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass

from scheduler.core.model.decisions import PreemptionCause, ReplicaPlacement
from scheduler.core.model.policy import Policy, PreemptionMode
from scheduler.core.model.snapshot import ClusterSnapshot, RunningJob, WaitingJob
from scheduler.core.queue.order import QueueOrder, Rank


@dataclass(frozen=True, slots=True)
class AllocatedJob:
    """A job with devices, now or by a decision of this pass."""

    job: WaitingJob
    replicas: tuple[ReplicaPlacement, ...]
    ends_at: int
    """When its time limit ends it."""
    rank: Rank
    preemptible_at: int | None = None
    """From this time on it may be stopped for a job before its rank; None: never."""

    def leaves_at(self, head: Rank, policy: Policy) -> int:
        """When it gives its devices to a job of rank `head` at the latest."""
        if self.preemptible_at is None:
            return self.ends_at
        by_order = policy.preemption is PreemptionMode.ORDER
        is_later = self.rank > head if by_order else self.rank[0] > head[0]
        return min(self.ends_at, self.preemptible_at) if is_later else self.ends_at


@dataclass(frozen=True, slots=True)
class PreemptibleJob:
    """A running job that may be stopped, its rank, and the cause that would be given."""

    run: RunningJob
    rank: Rank
    cause: PreemptionCause


def starting_job(
    job: WaitingJob, replicas: tuple[ReplicaPlacement, ...], rank: Rank, now: int, policy: Policy
) -> AllocatedJob:
    """A job that starts now."""
    return _allocated(RunningJob(job, replicas, now), rank, now, policy)


class RunningJobs:
    """The running jobs of a snapshot, sorted by what the pass may do with them."""

    def __init__(self, snapshot: ClusterSnapshot, policy: Policy, order: QueueOrder) -> None:
        self.allocated: dict[str, AllocatedJob] = {}
        """All of them, by job id."""
        self.may_stop: list[PreemptibleJob] = []
        """Preemptible, and past their protected time."""
        self.may_move: list[PreemptibleJob] = []
        """Preemptible, also within their protected time."""
        self.stopping: list[PreemptibleJob] = []
        now = snapshot.now
        for run in snapshot.running:
            is_preemptible = policy.preemption is not PreemptionMode.OFF and run.job.preemptible
            rank = order.running_rank(run) if is_preemptible else (0, 0, 0.0)
            allocated = _allocated(run, rank, now, policy)
            self.allocated[run.job.id] = allocated
            cause = PreemptionCause.ORDER
            if policy.preemption is PreemptionMode.PRIORITY:
                cause = PreemptionCause.PRIORITY
            if run.stopping:
                self.stopping.append(PreemptibleJob(run, rank, cause))
            elif allocated.preemptible_at is not None:
                self.may_move.append(PreemptibleJob(run, rank, cause))
                if allocated.preemptible_at <= now:
                    self.may_stop.append(self.may_move[-1])

    def with_allocated(self, allocated: Mapping[str, AllocatedJob]) -> "RunningJobs":
        """The same, with these jobs instead of those that have devices."""
        other = copy(self)
        other.allocated = dict(allocated)
        return other


def _allocated(run: RunningJob, rank: Rank, now: int, policy: Policy) -> AllocatedJob:
    if run.stopping:
        return AllocatedJob(run.job, run.replicas, now, rank)
    is_preemptible = policy.preemption is not PreemptionMode.OFF and run.job.preemptible
    preemptible_at = protected_until(run, policy) if is_preemptible else None
    return AllocatedJob(run.job, run.replicas, run.ends_at, rank, preemptible_at)


def protected_until(run: RunningJob, policy: Policy) -> int:
    """End of the job's protected time, in seconds since the epoch. It doubles with each preemption
    the job has had, at most 20 times."""
    doublings: int = min(run.job.preempted, 20)
    return run.started_at + (policy.protection_seconds << doublings)
