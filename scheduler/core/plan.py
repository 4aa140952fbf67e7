"""One planning pass: the queue in turn, each job placed, given room, promised a time, or held.

Deterministic: the same snapshot gives the same plan, in whatever order its parts are listed.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from scheduler.core.carving.prewarm import prewarm
from scheduler.core.devices.options import DeviceOption
from scheduler.core.explain.reasons import explain, repartition_reason
from scheduler.core.model.decisions import (
    Deferral,
    JobPlacement,
    Merge,
    Plan,
    Preemption,
    PreemptionCause,
)
from scheduler.core.model.policy import BackfillMode, Policy
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.snapshot import ClusterSnapshot, WaitingJob
from scheduler.core.pass_cache import PassCache
from scheduler.core.placement.ledger import Ledger
from scheduler.core.placement.legality import quota_reason
from scheduler.core.placement.search import GangPlacement, find_placement
from scheduler.core.queue.eligibility import not_due
from scheduler.core.queue.fairshare import FairShares, cluster_capacity
from scheduler.core.queue.messages import (
    BEHIND_OTHERS,
    placement_message,
    preemption,
    waits_for_reservation,
    waits_for_stops,
)
from scheduler.core.queue.order import (
    OwnerShares,
    QueueIterator,
    QueueOrder,
    QuotaShares,
    Rank,
    WorkEstimator,
)
from scheduler.core.queue.preemption import (
    PreemptionCandidates,
    PreemptionChoice,
    enough_by_gpu_count,
    make_room,
    make_room_by_moving,
)
from scheduler.core.queue.quota_reservation import QuotaReservations, quota_reserved_reason
from scheduler.core.queue.reclaim import QuotaReclaim
from scheduler.core.queue.requirements import Requirements
from scheduler.core.queue.reservation import (
    JobReservation,
    ReservationTable,
    reserve_placement,
    without_reserved,
)
from scheduler.core.queue.running import AllocatedJob, PreemptibleJob, RunningJobs, starting_job
from scheduler.core.queue.starvation import BypassCounter
from scheduler.core.queue.stopping import StoppingJobs

# Conservative backfill promises a time to so many; who comes later may still fill what is left.
MOST_PROMISES = 100


def plan(
    snapshot: ClusterSnapshot,
    policy: Policy,
    runtime_model: WorkEstimator | None = None,
    cache: PassCache | None = None,
) -> Plan:
    """What to do now: every waiting job is either placed or held with one reason.

    `outlook`: what is known of run times, for the fair order; None goes by the limits. `kept`: what
    the last pass over this cluster left, to be quicker."""
    return Pass(snapshot, policy, runtime_model, cache or PassCache()).run()


def plan_and_can_start(
    snapshot: ClusterSnapshot, policy: Policy, runtime_model: WorkEstimator | None = None
) -> tuple[Plan, Callable[[WaitingJob], bool]]:
    """The same plan, and a function for as long as it is current: whether a waiting job would start
    at once, at the end of this pass, if it asked for what the given job with its id asks for."""
    done = Pass(snapshot, policy, runtime_model, PassCache())
    return done.run(), done.can_start


class Pass:
    """The state of one pass. `failed` remembers requests that found no place: the ledger only
    fills up, so the same request cannot find one later in the pass."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        policy: Policy,
        outlook: WorkEstimator | None,
        kept: PassCache,
        asking: Collection[tuple[str, str]] | None = None,
    ) -> None:
        """`asking`: (project, user) of who waits; None: of the snapshot's jobs."""
        self.snapshot = snapshot
        self.policy = policy
        self.ledger, self.asks = kept.prepare(snapshot)
        self.shares = _shares(snapshot, policy, self.ledger, asking)
        self.keys = QueueOrder(policy, snapshot.now, self.asks.gpus, self.shares, outlook)
        running = RunningJobs(snapshot, policy, self.keys)
        self.occupants = running.allocated
        self.is_limited = bool(snapshot.quotas or snapshot.budgets or snapshot.owners)
        self.most_promises = {
            BackfillMode.EASY: policy.reservations,
            BackfillMode.CONSERVATIVE: MOST_PROMISES,
        }.get(policy.backfill, 0)
        self.victims = PreemptionCandidates(policy, running)
        self.borrowers = QuotaReclaim(snapshot, policy, self.ledger)
        self.promises = ReservationTable(snapshot.now, policy, self.ledger, self.occupants)
        self.failed: dict[object, Reason] = {}
        self.places: list[JobPlacement] = []
        self.merges: list[Merge] = []
        self.preempts: list[Preemption] = []
        self.holds: list[Deferral] = []
        self.blocked: list[str] = []
        self.contest = BypassCounter(policy.bypass_limit)
        self.leaving = StoppingJobs(self.ledger)
        self.kept_quota = QuotaReservations(self.ledger.accounts)

    def run(self) -> Plan:
        self.walk()
        promised = self.promises.decisions()
        more = prewarm(self.policy, self.ledger, self.occupants, promised)
        return Plan(
            placements=tuple(self.places),
            merges=(*self.merges, *more.merges),
            deferrals=tuple(self.holds),
            preemptions=tuple(self.preempts),
            reservations=promised,
            bypassed=self.contest.bypassed(),
            carves=more.carves,
        )

    def walk(self) -> None:
        """Every waiting job has its turn."""
        turns = QueueIterator(self.snapshot.jobs, self.keys)
        for job, rank in self.borrowers.lenders_first(turns, self.asks.options):
            reason = self._turn(job, rank)
            if reason is not None:
                self.holds.append(Deferral(job.id, reason, len(self.holds) + 1))

    def can_start(self, job: WaitingJob) -> bool:
        """Whether the job would start if it came last. The pass stays as it is."""
        ask = self.asks.of(job)
        others_wait = any(key != job.id for key in self.blocked)
        if others_wait and self.policy.backfill is BackfillMode.NONE:
            return False
        if not_due(job, self.snapshot.now) or self.asks.impossible_reason(job, ask):
            return False
        rank = self.keys.rank(job, self.keys.waiting_key(job), self.keys.owner_factor(job))
        starting = self._starting(job, rank)
        crossed, mark = self.promises.overlapping(starting), self.ledger.mark()
        for want in ask.options:
            if (
                self._quota(job, want) is not None
                or not self.kept_quota.allowed_options(job, [want])[0]
            ):
                continue
            with self.promises.trial():
                found, _ = self._find(starting, want, crossed, merging=False)
            self.ledger.rollback(mark)
            if found is not None:
                return True
        return False

    def _starting(self, job: WaitingJob, rank: Rank) -> AllocatedJob:
        once = self.keys.rank_once_running(job, rank)
        return starting_job(job, (), once, self.snapshot.now, self.policy)

    def started(self, job: WaitingJob, found: GangPlacement) -> None:
        """An earlier pass gave it these places, which the ledger holds: so far nobody used them."""
        rank = self.keys.rank(job, self.keys.waiting_key(job), self.keys.owner_factor(job))
        self.occupants[job.id] = replace(self._starting(job, rank), replicas=tuple(found.replicas))

    def _turn(self, job: WaitingJob, rank: Rank) -> Reason | None:
        """Place the job; or the reason that it stays in the queue."""
        if reason := not_due(job, self.snapshot.now):
            return reason
        ask = self.asks.of(job)
        if reason := self.asks.impossible_reason(job, ask):
            return reason
        ways = [w for w in ask.options if self._quota(job, w) is None]
        if not ways:
            return self._short(job, rank, ask.options)
        ways, ahead = self.kept_quota.allowed_options(job, ways)
        if not ways:
            self.contest.waits_for_quota(job)
            return quota_reserved_reason(ahead)
        reason = self._try(job, rank, ask, ways)
        if reason is not None:
            self.contest.waits_for_devices(job, ask.boards)
        return reason

    def _try(
        self, job: WaitingJob, rank: Rank, ask: Requirements, ways: list[DeviceOption]
    ) -> Reason | None:
        """With what its owners may have now."""
        if self.blocked and self.policy.backfill is BackfillMode.NONE:
            self.blocked.append(job.id)
            return BEHIND_OTHERS
        # Who may have less than its owners ask for finds other places.
        alike = (*ask.equivalence_key, *(() if len(ways) == len(ask.options) else ways))
        if self.borrowers.can_reclaim:
            # Who may take back quota depends on the project.
            alike = (*alike, job.project)
        reason = self.failed.get(alike)
        if reason is None:
            starting = self._starting(job, rank)
            crossed = self.promises.overlapping(starting)
            # A job that ends before a promised time may find a place where a longer one did not.
            reason = self.failed.get((*alike, len(crossed)))
            if reason is None:
                reason = self._place(starting, rank, ways, crossed)
                if reason is not None and reason.code is ReasonCode.RESERVATION:
                    self.failed[(*alike, len(crossed))] = reason
                elif reason is not None and job.id not in self.occupants:
                    self.failed[alike] = reason
        if reason is not None and job.id not in self.occupants:
            self._block(job, rank, ways)
        return reason

    def _quota(self, job: WaitingJob, want: DeviceOption) -> Reason | None:
        if not self.is_limited:
            return None
        return quota_reason(job, want.replica_units * job.replicas, self.ledger, want.board)

    def _short(self, job: WaitingJob, rank: Rank, ways: list[DeviceOption]) -> Reason | None:
        self.contest.waits_for_quota(job)
        if rank[1] == 0:
            self.kept_quota.reserve(job, ways)
        return self._quota(job, ways[0])

    def _place(
        self,
        starting: AllocatedJob,
        rank: Rank,
        ways: list[DeviceOption],
        crossed: list[JobReservation],
    ) -> Reason | None:
        """Start the job, or hold a place for it until merges or victims are gone; else why not."""
        job = starting.job
        broken: JobReservation | None = None
        for merging in (False, True) if self.policy.merge and self.ledger.has_idle else (False,):
            for want in ways:
                found, promise = self._find(starting, want, crossed, merging=merging)
                broken = broken or promise
                if found is not None:
                    return self._take(starting, found, merging=merging)
        if broken is not None:
            return waits_for_reservation(broken)
        if reason := self._room(starting, rank, ways):
            return reason
        return explain(job, ways[0], self.ledger, _can_place)

    def _find(
        self,
        starting: AllocatedJob,
        want: DeviceOption,
        crossed: list[JobReservation],
        *,
        merging: bool,
    ) -> tuple[GangPlacement | None, JobReservation | None]:
        """Places on the ledger that break no promise; the second value: one that was in the way."""
        job, mark = starting.job, self.ledger.mark()
        found = self.leaving.find_placement(job, want, merging=merging)
        if found is None or not crossed:
            return found, None
        broken = self.promises.admit(starting, found)
        if broken is None:
            return found, None
        self.ledger.rollback(mark)
        with without_reserved(self.ledger, crossed):
            found = find_placement(job, want, self.ledger, merging=merging)
        if found is None or self.promises.admit(starting, found) is not None:
            return None, broken
        reserve_placement(self.ledger, job, found)
        return found, None

    def _take(
        self, starting: AllocatedJob, found: GangPlacement, *, merging: bool
    ) -> Reason | None:
        self._occupy(starting, found)
        if there := self.leaving.blocking(found):
            self._merge(starting.job, found)
            return waits_for_stops(there)
        if merging:
            # Idle slices go first, for this job or one before it; the ledger keeps the place.
            self._merge(starting.job, found)
            return repartition_reason()
        self.places.append(
            JobPlacement(starting.job.id, tuple(found.replicas), placement_message(found))
        )
        device = found.replicas[0].devices[0]
        self.contest.started(starting.job, self.ledger.gpus[device.gpu].board.key)
        return None

    def _occupy(self, starting: AllocatedJob, found: GangPlacement) -> None:
        job, replicas = starting.job, tuple(found.replicas)
        self.occupants[job.id] = replace(starting, replicas=replicas)
        units = sum(device.units for replica in replicas for device in replica.devices)
        host = (job.replicas * job.cpu_milli, job.replicas * job.memory_mib)
        seconds = max(0, job.time_limit_seconds - job.attained_seconds)
        self.shares.charge(job.project, job.user, units, *host, seconds)

    def _room(self, starting: AllocatedJob, rank: Rank, ways: list[DeviceOption]) -> Reason | None:
        """Hold the place of running work that stops for this job, or that stops already."""
        job, mark = starting.job, self.ledger.mark()
        candidates = [*self.victims.stopping, *self.victims.for_job(job, rank)]
        room, moved = self._taken_back(job, ways), list[PreemptibleJob]()
        if room is None and self.policy.moves:
            # The last in order stop, and where that leaves holes, others move together.
            last = enough_by_gpu_count(job, ways, self.ledger, candidates)
            room, moved = self._moving(job, ways, last)
        if room is None:
            room = make_room(job, ways, self.ledger, candidates)
        if room is None and self.policy.moves:
            room, moved = self._moving(job, ways, candidates)
        if room is None:
            return None
        leave = [*room.stops, *moved]
        gone = [o for v in leave if (o := self.occupants.get(v.run.job.id))]
        if self.promises.admit(starting, room.placement, gone) is not None:
            self.ledger.rollback(mark)
            return None
        for victim in leave:
            self.occupants.pop(victim.run.job.id, None)
        self.victims.mark_stopping(leave)
        self.leaving.add(leave)
        self.borrowers.mark_stopping(leave)
        self._occupy(starting, room.placement)
        self._merge(job, room.placement)
        self.preempts += [preemption(v, job, v.cause) for v in room.stops if not v.run.stopping]
        self.preempts += [preemption(v, job, PreemptionCause.MOVE) for v in moved]
        return waits_for_stops(leave)

    def _moving(
        self, job: WaitingJob, ways: list[DeviceOption], stop: Sequence[PreemptibleJob]
    ) -> tuple[PreemptionChoice | None, list[PreemptibleJob]]:
        """Room where only these stop, and smaller jobs may move; and who does."""
        if room := make_room(job, ways, self.ledger, stop):
            return room, []
        movers = self.victims.movers(job, self.asks.gpus, stop)
        if not movers:
            return None, []
        how = (self.asks.options, self.policy.moves)
        return make_room_by_moving(job, ways, self.ledger, stop, movers, *how) or (None, [])

    def _taken_back(self, job: WaitingJob, ways: list[DeviceOption]) -> PreemptionChoice | None:
        """Where it needs more than those who stop already, borrowers go."""
        stopping = self.victims.stopping
        if not self.borrowers.can_reclaim:
            return None
        return make_room(job, ways, self.ledger, stopping) or self.borrowers.make_room(
            job, ways, stopping
        )

    def _block(self, job: WaitingJob, rank: Rank, ways: list[DeviceOption]) -> None:
        """It stays behind; the first ones are promised a time, and whoever was overtaken too
        often."""
        self.blocked.append(job.id)
        is_overdue = rank[1] == 0 and self.policy.backfill is not BackfillMode.NONE
        if len(self.promises.entries) < (MOST_PROMISES if is_overdue else self.most_promises):
            seconds = max(1, job.time_limit_seconds - job.attained_seconds)
            self.promises.reserve(job, rank, ways, seconds)

    def _merge(self, job: WaitingJob, found: GangPlacement) -> None:
        """Ask to delete the idle slices that are ready; others are on their way already."""
        if not found.merges:
            return
        views = {s.id: s for node in self.snapshot.nodes for g in node.gpus for s in g.slices}
        for gpu, slices in sorted(found.merges.items()):
            ready = tuple(sorted(s for s in slices if views[s].ready))
            if ready:
                self.merges.append(Merge(gpu, ready, job.id))


def _shares(
    snapshot: ClusterSnapshot,
    policy: Policy,
    ledger: Ledger,
    asking: Collection[tuple[str, str]] | None = None,
) -> OwnerShares:
    """By what owners used lately, where that is told; else by what they hold of their quotas."""
    if not snapshot.owners:
        return QuotaShares(ledger)
    return FairShares(
        snapshot.owners,
        cluster_capacity(snapshot),
        half_life_seconds=policy.half_life_seconds,
        waiting_owners={(j.project, j.user) for j in snapshot.jobs} if asking is None else asking,
    )


def _can_place(job: WaitingJob, want: DeviceOption, ledger: Ledger) -> bool:
    return find_placement(job, want, ledger) is not None
