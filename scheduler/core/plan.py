"""One planning pass: `plan(snapshot, policy)` says what to do now.

Each waiting job is placed, gets room made or a start time reserved, or stays in the queue with one
reason; `pass_stages` has the stages of a turn. Deterministic: equal snapshots give equal plans, in
whatever order their parts are listed. A caller may stop a pass that takes too long, and gets what
it has decided so far; that is the same again if the pass is stopped after as many turns.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from scheduler.core.carving.prewarm import prewarm
from scheduler.core.carving.proposals import Proposals
from scheduler.core.model.decisions import Continuation, Deferral, Plan, ReplicaPlacement
from scheduler.core.model.policy import BackfillMode, Policy
from scheduler.core.model.snapshot import ClusterSnapshot, RunningJob, WaitingJob
from scheduler.core.pass_cache import PassCache
from scheduler.core.pass_growth import growing_gang
from scheduler.core.pass_search import quota_shortage, starts_at_once
from scheduler.core.pass_stages import take_turn
from scheduler.core.pass_state import PassState
from scheduler.core.placement.search import GangPlacement
from scheduler.core.queue.eligibility import not_due
from scheduler.core.queue.fairshare import OwnerKey
from scheduler.core.queue.order import QueueIterator, WorkEstimator
from scheduler.core.queue.running import RunningJobs

# Devices by job.
Places = Mapping[str, Iterable[ReplicaPlacement]]
# Called with the number of turns taken so far: whether the pass should end before the next one.
ShouldStop = Callable[[int], bool]


def never_stop(turns: int) -> bool:
    return False


def plan(
    snapshot: ClusterSnapshot,
    policy: Policy,
    runtime_model: WorkEstimator | None = None,
    cache: PassCache | None = None,
    *,
    should_stop: ShouldStop = never_stop,
    continued: Continuation | None = None,
) -> Plan:
    """What to do now: every waiting job is either placed or deferred with one reason.

    `runtime_model`: for the fair order; None goes by time limits. `cache`: from the last pass over
    this cluster, for speed. `should_stop` is called with the number of turns taken, before each
    further one; once it returns True, the plan has what was decided so far, and a continuation.
    `continued`: that of the pass before, if it was stopped."""
    each = Pass(snapshot, policy, runtime_model, cache or PassCache())
    return each.run(should_stop, continued)


def plan_and_places(
    snapshot: ClusterSnapshot,
    policy: Policy,
    runtime_model: WorkEstimator | None = None,
    *,
    should_stop: ShouldStop = never_stop,
    continued: Continuation | None = None,
) -> tuple[Plan, Places]:
    """As `plan`, with `Pass.places`."""
    each = Pass(snapshot, policy, runtime_model, PassCache())
    return each.run(should_stop, continued), each.places


def plan_and_can_start(
    snapshot: ClusterSnapshot, policy: Policy, runtime_model: WorkEstimator | None = None
) -> tuple[Plan, Callable[[WaitingJob], bool]]:
    """The plan, and a function on its final state: whether a waiting job would start at once if its
    request were replaced by the one of the given job, which has the same id."""
    done = Pass(snapshot, policy, runtime_model, PassCache())
    return done.run(), done.can_start


class Pass:
    """One pass over the queue. The arguments are those of `PassState.begin`."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        policy: Policy,
        runtime_model: WorkEstimator | None,
        cache: PassCache,
        waiting_owners: Collection[OwnerKey] | None = None,
        running: RunningJobs | None = None,
    ) -> None:
        self.state = PassState.begin(
            snapshot, policy, runtime_model, cache, waiting_owners, running
        )

    def run(
        self, should_stop: ShouldStop = never_stop, continued: Continuation | None = None
    ) -> Plan:
        continuation = self.walk(should_stop, continued)
        state = self.state
        reservations = state.reservations.decisions()
        prepared, grows = Proposals(), None
        if continuation is None:
            # Whoever had their turn in an earlier pass may wait for the devices.
            grows = growing_gang(state) if continued is None else None
        if continuation is None and grows is None:
            # Room for expected demand comes after all jobs that wait, and after one that grows.
            prepared = prewarm(state.policy, state.ledger, state.allocated, reservations)
        return Plan(
            placements=tuple(state.placements),
            merges=(*state.merges, *prepared.merges),
            deferrals=tuple(state.deferrals),
            preemptions=tuple(state.preemptions),
            reservations=reservations,
            bypassed=state.bypasses.bypassed(),
            carves=prepared.carves,
            resizes=(grows,) if grows else (),
            continuation=continuation,
        )

    @property
    def places(self) -> Places:
        """Devices that the pass gave to waiting jobs or keeps for them."""
        jobs = {job.id for job in self.state.snapshot.jobs}
        return {id: held.replicas for id, held in self.state.allocated.items() if id in jobs}

    def walk(
        self, should_stop: ShouldStop = never_stop, continued: Continuation | None = None
    ) -> Continuation | None:
        """Give every waiting job its turn, or stop earlier: where to go on.

        At least one job starts, or has its turn that had none in the passes before, so that the
        passes come to the end of the queue."""
        state, advanced, taken = self.state, False, 0
        considered = set(continued.considered) if continued else set()
        left_out = considered - set(continued.considered_again) if continued else set()
        waiting: list[str] = []
        turns = QueueIterator(state.snapshot.jobs, state.order)
        for job, rank in state.reclaim.lenders_first(turns, state.requirements.options):
            if job.id in left_out and self._may_leave_out():
                waiting.append(job.id)
                continue
            if advanced and should_stop(taken):
                return self._continuation(considered, waiting)
            reason = take_turn(state, state.turn(job, rank))
            taken += 1
            advanced = advanced or job.id not in considered or reason is None
            if reason is not None:
                waiting.append(job.id)
                state.deferrals.append(Deferral(job.id, reason, len(waiting)))
        return None

    def _may_leave_out(self) -> bool:
        """Whether a job that had its turn in an earlier pass may have none in this one. Without
        backfill only behind a blocked job: the one that it stood behind may have started."""
        state = self.state
        return state.policy.backfill is not BackfillMode.NONE or bool(state.blocked)

    def _continuation(self, before: set[str], waiting: list[str]) -> Continuation:
        state, placed = self.state, {placement.job for placement in self.state.placements}
        present = before & {job.id for job in state.snapshot.jobs}
        considered = (present | set(waiting)) - placed
        again = considered & state.jobs_that_hold()
        return Continuation(tuple(sorted(considered)), tuple(sorted(again)))

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
        for option in turn.options:
            if quota_shortage(state, job, option) is not None:
                continue
            if not state.quota_reservations.allowed_options(job, [option])[0]:
                continue
            if starts_at_once(state, turn, option):
                return True
        return False

    def can_start_without(self, job: WaitingJob, run: RunningJob) -> bool:
        """The same, once the running job has ended."""
        mark = self.state.ledger.mark()
        self.state.ledger.release(run.job, run.replicas)
        found = self.can_start(job)
        self.state.ledger.rollback(mark)
        return found

    def assume_started(self, job: WaitingJob, placement: GangPlacement) -> None:
        """Count a job of an earlier pass as running at this placement, which the ledger holds and
        has charged."""
        turn = self.state.last_turn(job)
        self.state.begin_devices(turn)
        replicas = tuple(placement.replicas)
        self.state.allocated[job.id] = replace(turn.starting, replicas=replicas)
