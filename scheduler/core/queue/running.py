"""Who holds devices: until when at the latest, and who of them may be stopped."""

from dataclasses import dataclass

from scheduler.core.model.decisions import PreemptionCause, ReplicaPlacement
from scheduler.core.model.policy import Policy, PreemptionMode
from scheduler.core.model.snapshot import ClusterSnapshot, RunningJob, WaitingJob
from scheduler.core.queue.order import QueueOrder, Rank


@dataclass(frozen=True, slots=True)
class AllocatedJob:
    """Who holds devices now, or will in this pass. `ends_at`: its limit. `stops_at`: from then on
    it may be stopped for whoever stands before its `rank`; None where it may not."""

    job: WaitingJob
    replicas: tuple[ReplicaPlacement, ...]
    ends_at: int
    rank: Rank
    preemptible_at: int | None = None

    def leaves_at(self, head: Rank, policy: Policy) -> int:
        """When it gives its devices to a job of rank `head` at the latest."""
        if self.preemptible_at is None:
            return self.ends_at
        by_order = policy.preemption is PreemptionMode.ORDER
        later = self.rank > head if by_order else self.rank[0] > head[0]
        return min(self.ends_at, self.preemptible_at) if later else self.ends_at


@dataclass(frozen=True, slots=True)
class PreemptibleJob:
    """A running job that may be stopped, where it stands in the order, and what for."""

    run: RunningJob
    rank: Rank
    cause: PreemptionCause


def starting_job(
    job: WaitingJob, replicas: tuple[ReplicaPlacement, ...], rank: Rank, now: int, policy: Policy
) -> AllocatedJob:
    """A job that starts now."""
    return _occupant(RunningJob(job, replicas, now), rank, now, policy)


class RunningJobs:
    """The running jobs of a snapshot, `occupants` by id, who `may_stop` or `may_move` (also in its
    protected time), who is `stopping`."""

    def __init__(self, snapshot: ClusterSnapshot, policy: Policy, keys: QueueOrder) -> None:
        self.allocated: dict[str, AllocatedJob] = {}
        self.may_stop: list[PreemptibleJob] = []
        self.may_move: list[PreemptibleJob] = []
        self.stopping: list[PreemptibleJob] = []
        now = snapshot.now
        for run in snapshot.running:
            can = policy.preemption is not PreemptionMode.OFF and run.job.preemptible
            rank = keys.running_rank(run) if can else (0, 0, 0.0)
            held = _occupant(run, rank, now, policy)
            self.allocated[run.job.id] = held
            cause = PreemptionCause.ORDER
            if policy.preemption is PreemptionMode.PRIORITY:
                cause = PreemptionCause.PRIORITY
            if run.stopping:
                self.stopping.append(PreemptibleJob(run, rank, cause))
            elif held.preemptible_at is not None:
                self.may_move.append(PreemptibleJob(run, rank, cause))
                if held.preemptible_at <= now:
                    self.may_stop.append(self.may_move[-1])


def _occupant(run: RunningJob, rank: Rank, now: int, policy: Policy) -> AllocatedJob:
    if run.stopping:
        return AllocatedJob(run.job, run.replicas, now, rank)
    can = policy.preemption is not PreemptionMode.OFF and run.job.preemptible
    stops_at = protected_until(run, policy) if can else None
    return AllocatedJob(run.job, run.replicas, run.ends_at, rank, stops_at)


def protected_until(run: RunningJob, policy: Policy) -> int:
    """Before this time the job is not stopped, in seconds since the epoch."""
    doublings: int = min(run.job.preempted, 20)
    return run.started_at + (policy.protection_seconds << doublings)
