"""One planning pass: `plan(snapshot, policy)` says what to do now.

Each waiting job is placed, gets room made or a start time reserved, or stays in the queue with one
reason; `pass_stages` has the stages of a turn. Deterministic: equal snapshots give equal plans, in
whatever order their parts are listed.
"""

from collections.abc import Callable, Collection
from dataclasses import replace

from scheduler.core.carving.prewarm import prewarm
from scheduler.core.model.decisions import Deferral, Plan
from scheduler.core.model.policy import BackfillMode, Policy
from scheduler.core.model.snapshot import ClusterSnapshot, WaitingJob
from scheduler.core.pass_cache import PassCache
from scheduler.core.pass_stages import find_undelayed, quota_shortage, take_turn
from scheduler.core.pass_state import PassState
from scheduler.core.placement.search import GangPlacement
from scheduler.core.queue.eligibility import not_due
from scheduler.core.queue.fairshare import OwnerKey
from scheduler.core.queue.order import QueueIterator, WorkEstimator


def plan(
    snapshot: ClusterSnapshot,
    policy: Policy,
    runtime_model: WorkEstimator | None = None,
    cache: PassCache | None = None,
) -> Plan:
    """What to do now: every waiting job is either placed or deferred with one reason.

    `runtime_model`: for the fair order; None goes by time limits. `cache`: from the last pass over
    this cluster, for speed."""
    return Pass(snapshot, policy, runtime_model, cache or PassCache()).run()


def plan_and_can_start(
    snapshot: ClusterSnapshot, policy: Policy, runtime_model: WorkEstimator | None = None
) -> tuple[Plan, Callable[[WaitingJob], bool]]:
    """The plan, and a function on its final state: whether a waiting job would start at once if its
    request were replaced by the one of the given job, which has the same id."""
    done = Pass(snapshot, policy, runtime_model, PassCache())
    return done.run(), done.can_start


class Pass:
    """One pass over the queue. `waiting_owners`: None takes the owners of the snapshot's jobs."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        policy: Policy,
        runtime_model: WorkEstimator | None,
        cache: PassCache,
        waiting_owners: Collection[OwnerKey] | None = None,
    ) -> None:
        self.state = PassState.begin(snapshot, policy, runtime_model, cache, waiting_owners)

    def run(self) -> Plan:
        self.walk()
        state = self.state
        reservations = state.reservations.decisions()
        prepared = prewarm(state.policy, state.ledger, state.allocated, reservations)
        return Plan(
            placements=tuple(state.placements),
            merges=(*state.merges, *prepared.merges),
            deferrals=tuple(state.deferrals),
            preemptions=tuple(state.preemptions),
            reservations=reservations,
            bypassed=state.bypasses.bypassed(),
            carves=prepared.carves,
        )

    def walk(self) -> None:
        """Give every waiting job its turn."""
        state = self.state
        turns = QueueIterator(state.snapshot.jobs, state.order)
        for job, rank in state.reclaim.lenders_first(turns, state.requirements.options):
            reason = take_turn(state, state.turn(job, rank))
            if reason is not None:
                state.deferrals.append(Deferral(job.id, reason, len(state.deferrals) + 1))

    def can_start(self, job: WaitingJob) -> bool:
        """Whether the job would start if it came last. The pass stays as it is."""
        state = self.state
        others_wait = any(key != job.id for key in state.blocked)
        if others_wait and state.policy.backfill is BackfillMode.NONE:
            return False
        turn = state.last_turn(job)
        if not_due(job, state.snapshot.now):
            return False
        if state.requirements.impossible_reason(job, turn.requirements):
            return False
        state.begin_devices(turn)
        mark = state.ledger.mark()
        for option in turn.options:
            if quota_shortage(state, job, option) is not None:
                continue
            if not state.quota_reservations.allowed_options(job, [option])[0]:
                continue
            with state.reservations.trial():
                placement = find_undelayed(state, turn, option, merging=False)
            state.ledger.rollback(mark)
            if placement is not None:
                return True
        return False

    def assume_started(self, job: WaitingJob, placement: GangPlacement) -> None:
        """Count a job of an earlier pass as running at this placement, which the ledger holds."""
        turn = self.state.last_turn(job)
        self.state.begin_devices(turn)
        replicas = tuple(placement.replicas)
        self.state.allocated[job.id] = replace(turn.starting, replicas=replicas)
