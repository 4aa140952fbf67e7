"""Who holds devices: until when at the latest, and who of them may be stopped."""

from dataclasses import dataclass

from scheduler.core.model.decisions import PreemptCause, ReplicaPlace
from scheduler.core.model.policy import Policy, Preemption
from scheduler.core.model.snapshot import ClusterSnapshot, RunningJob, WaitingJob
from scheduler.core.queue.order import Keys, Rank


@dataclass(frozen=True, slots=True)
class Occupant:
    """Who holds devices now, or will in this pass. `ends_at`: its limit. `stops_at`: from then on
    it may be stopped for whoever stands before its `rank`; None where it may not."""

    job: WaitingJob
    replicas: tuple[ReplicaPlace, ...]
    ends_at: int
    rank: Rank
    stops_at: int | None = None

    def leaves_at(self, head: Rank, policy: Policy) -> int:
        """When it gives its devices to a job of rank `head` at the latest."""
        if self.stops_at is None:
            return self.ends_at
        by_order = policy.preemption is Preemption.ORDER
        later = self.rank > head if by_order else self.rank[0] > head[0]
        return min(self.ends_at, self.stops_at) if later else self.ends_at


@dataclass(frozen=True, slots=True)
class Victim:
    """A running job that may be stopped, where it stands in the order, and what for."""

    run: RunningJob
    rank: Rank
    cause: PreemptCause


def occupant(
    job: WaitingJob, replicas: tuple[ReplicaPlace, ...], rank: Rank, now: int, policy: Policy
) -> Occupant:
    """A job that starts now."""
    return _occupant(RunningJob(job, replicas, now), rank, now, policy)


class Running:
    """The running jobs of a snapshot, `occupants` by id, who `may_stop` or `may_move` (also in its
    protected time), who is `stopping`."""

    def __init__(self, snapshot: ClusterSnapshot, policy: Policy, keys: Keys) -> None:
        self.occupants: dict[str, Occupant] = {}
        self.may_stop: list[Victim] = []
        self.may_move: list[Victim] = []
        self.stopping: list[Victim] = []
        now = snapshot.now
        for run in snapshot.running:
            can = policy.preemption is not Preemption.OFF and run.job.preemptible
            rank = keys.running(run) if can else (0, 0, 0.0)
            held = _occupant(run, rank, now, policy)
            self.occupants[run.job.id] = held
            cause = PreemptCause.ORDER
            if policy.preemption is Preemption.PRIORITY:
                cause = PreemptCause.PRIORITY
            if run.stopping:
                self.stopping.append(Victim(run, rank, cause))
            elif held.stops_at is not None:
                self.may_move.append(Victim(run, rank, cause))
                if held.stops_at <= now:
                    self.may_stop.append(self.may_move[-1])


def _occupant(run: RunningJob, rank: Rank, now: int, policy: Policy) -> Occupant:
    if run.stopping:
        return Occupant(run.job, run.replicas, now, rank)
    can = policy.preemption is not Preemption.OFF and run.job.preemptible
    stops_at = protected_until(run, policy) if can else None
    return Occupant(run.job, run.replicas, run.ends_at, rank, stops_at)


def protected_until(run: RunningJob, policy: Policy) -> int:
    """Before this time the job is not stopped, in seconds since the epoch."""
    doublings: int = min(run.job.preempted, 20)
    return run.started_at + (policy.protection_seconds << doublings)
