"""One planning pass: the queue in turn, each job placed, given room, promised a time, or held.

Deterministic: the same snapshot gives the same plan, in whatever order its parts are listed.
"""

from dataclasses import replace

from scheduler.core.asks import Asks
from scheduler.core.decisions import Hold, Merge, Place, Plan, Preempt, PreemptCause
from scheduler.core.due import not_due
from scheduler.core.explain import explain, repartition
from scheduler.core.fairshare import FairShares, capacity_of
from scheduler.core.fits import quota_reason
from scheduler.core.ledger import Ledger
from scheduler.core.order import Keys, Outlook, QuotaShares, Rank, Shares, Turns
from scheduler.core.place import Found, find
from scheduler.core.policy import Backfill, Policy
from scheduler.core.preemption import Victims, make_room, make_room_by_moving
from scheduler.core.reasons import Reason, ReasonCode
from scheduler.core.reservation import Promise, Promises, beside, hold
from scheduler.core.running import Occupant, Running, Victim, occupant
from scheduler.core.told import BEHIND, preempt, reserved, until_stopped, why_here
from scheduler.core.values import ClusterSnapshot, WaitingJob
from scheduler.core.wants import Want

# Conservative backfill promises a time to so many; who comes later may still fill what is left.
MOST_PROMISES = 100


def plan(snapshot: ClusterSnapshot, policy: Policy, outlook: Outlook | None = None) -> Plan:
    """What to do now: every waiting job is either placed or held with one reason.

    `outlook`: what is known of run times, for the fair order; None goes by the limits."""
    return _Pass(snapshot, policy, outlook).run()


class _Pass:
    """The state of one pass. `failed` remembers requests that found no place: the ledger only
    fills up, so the same request cannot find one later in the pass."""

    def __init__(self, snapshot: ClusterSnapshot, policy: Policy, outlook: Outlook | None) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.ledger = Ledger(snapshot)
        self.asks = Asks(snapshot)
        self.shares = _shares(snapshot, policy, self.ledger)
        self.keys = Keys(policy, snapshot.now, self.asks.gpus, self.shares, outlook)
        running = Running(snapshot, policy, self.keys)
        self.occupants = running.occupants
        self.victims = Victims(policy, running.may_stop, running.stopping)
        self.promises = Promises(snapshot.now, policy, self.ledger, self.occupants)
        self.failed: dict[object, Reason] = {}
        self.places: list[Place] = []
        self.merges: list[Merge] = []
        self.preempts: list[Preempt] = []
        self.holds: list[Hold] = []
        self.blocked: list[str] = []
        self.overtaken = 0

    def run(self) -> Plan:
        for job, rank in Turns(self.snapshot.jobs, self.keys):
            reason = self._turn(job, rank)
            if reason is not None:
                self.holds.append(Hold(job.id, reason, len(self.holds) + 1))
        return Plan(
            places=tuple(self.places),
            merges=tuple(self.merges),
            holds=tuple(self.holds),
            preempts=tuple(self.preempts),
            reservations=self.promises.answers(),
            bypassed=tuple(self.blocked[: self.overtaken]),
        )

    def _turn(self, job: WaitingJob, rank: Rank) -> Reason | None:
        """Place the job; or the reason that it stays in the queue."""
        if reason := not_due(job, self.snapshot.now):
            return reason
        ask = self.asks.of(job)
        if reason := self.asks.never(job, ask):
            return reason
        ways = [w for w in ask.ways if self._quota(job, w) is None]
        if not ways:
            return self._quota(job, ask.ways[0])
        if self.blocked and self.policy.backfill is Backfill.NONE:
            self.blocked.append(job.id)
            return BEHIND
        starting = occupant(job, (), self.keys.once_running(rank), self.snapshot.now, self.policy)
        crossed = self.promises.crossed(starting)
        alike = (*ask.alike, len(ways))
        # A job that ends before a promised time may find a place where a longer one did not.
        reason = self.failed.get(alike) or self.failed.get((*alike, len(crossed)))
        if reason is None:
            reason = self._place(starting, rank, ways, crossed)
            if reason is not None and reason.code is ReasonCode.RESERVATION:
                self.failed[(*alike, len(crossed))] = reason
            elif reason is not None and job.id not in self.occupants:
                self.failed[alike] = reason
        if reason is not None and job.id not in self.occupants:
            self._block(job, rank, ways)
        return reason

    def _quota(self, job: WaitingJob, want: Want) -> Reason | None:
        return quota_reason(job, want.replica_units * job.replicas, self.ledger, want.board)

    def _place(
        self, starting: Occupant, rank: Rank, ways: list[Want], crossed: list[Promise]
    ) -> Reason | None:
        """Start the job, or hold a place for it until merges or victims are gone; else why not."""
        job = starting.job
        broken: Promise | None = None
        for merging in (False, True) if self.policy.merge and self.ledger.has_idle else (False,):
            for want in ways:
                found, promise = self._find(starting, want, crossed, merging=merging)
                broken = broken or promise
                if found is not None:
                    return self._take(starting, found, merging=merging)
        if broken is not None:
            return reserved(broken)
        if reason := self._room(starting, rank, ways):
            return reason
        return explain(job, ways[0], self.ledger, _can_place)

    def _find(
        self, starting: Occupant, want: Want, crossed: list[Promise], *, merging: bool
    ) -> tuple[Found | None, Promise | None]:
        """Places on the ledger that break no promise; the second value: one that was in the way."""
        job, mark = starting.job, self.ledger.mark()
        found = find(job, want, self.ledger, merging=merging)
        if found is None or not crossed:
            return found, None
        broken = self.promises.allows(starting, found)
        if broken is None:
            return found, None
        self.ledger.rollback(mark)
        with beside(self.ledger, crossed):
            found = find(job, want, self.ledger, merging=merging)
        if found is None or self.promises.allows(starting, found) is not None:
            return None, broken
        hold(self.ledger, job, found)
        return found, None

    def _take(self, starting: Occupant, found: Found, *, merging: bool) -> Reason | None:
        self._occupy(starting, found)
        if merging:
            # Idle slices go first, for this job or one before it; the ledger keeps the place.
            self._merge(starting.job, found)
            return repartition()
        self.places.append(Place(starting.job.id, tuple(found.replicas), why_here(found)))
        self.overtaken = len(self.blocked)
        return None

    def _occupy(self, starting: Occupant, found: Found) -> None:
        job, replicas = starting.job, tuple(found.replicas)
        self.occupants[job.id] = replace(starting, replicas=replicas)
        units = sum(device.units for replica in replicas for device in replica.devices)
        host = (job.replicas * job.cpu_milli, job.replicas * job.memory_mib)
        seconds = max(0, job.time_limit_seconds - job.attained_seconds)
        self.shares.charge(job.project, job.user, units, *host, seconds)

    def _room(self, starting: Occupant, rank: Rank, ways: list[Want]) -> Reason | None:
        """Hold the place of running work that stops for this job, or that stops already."""
        job, mark = starting.job, self.ledger.mark()
        candidates = [*self.victims.stopping, *self.victims.for_job(job, rank)]
        moved: list[Victim] = []
        room = make_room(job, ways, self.ledger, candidates)
        if room is None and (movers := self.victims.movers(job, rank, self.asks.gpus)):
            how = (self.asks.ways, self.policy.moves)
            moving = make_room_by_moving(job, ways, self.ledger, candidates, movers, *how)
            room, moved = moving or (None, [])
        if room is None:
            return None
        leave = [*room.victims, *moved]
        gone = [o for v in leave if (o := self.occupants.get(v.run.job.id))]
        if self.promises.allows(starting, room.found, gone) is not None:
            self.ledger.rollback(mark)
            return None
        for victim in leave:
            self.occupants.pop(victim.run.job.id, None)
        self.victims.take(leave)
        self._occupy(starting, room.found)
        self._merge(job, room.found)
        self.preempts += [preempt(v, job, v.cause) for v in room.victims if not v.run.stopping]
        self.preempts += [preempt(v, job, PreemptCause.MOVE) for v in moved]
        return until_stopped(leave)

    def _block(self, job: WaitingJob, rank: Rank, ways: list[Want]) -> None:
        """It stays behind; the first ones are promised a time, and whoever was overtaken too
        often."""
        self.blocked.append(job.id)
        most = {
            Backfill.EASY: self.policy.reservations,
            Backfill.CONSERVATIVE: MOST_PROMISES,
        }.get(self.policy.backfill, 0)
        is_overdue = rank[1] == 0 and self.policy.backfill is not Backfill.NONE
        if len(self.promises.made) < (MOST_PROMISES if is_overdue else most):
            seconds = max(1, job.time_limit_seconds - job.attained_seconds)
            self.promises.promise(job, rank, ways, seconds)

    def _merge(self, job: WaitingJob, found: Found) -> None:
        """Ask to delete the idle slices that are ready; others are on their way already."""
        if not found.merges:
            return
        views = {s.id: s for node in self.snapshot.nodes for g in node.gpus for s in g.slices}
        for gpu, slices in sorted(found.merges.items()):
            ready = tuple(sorted(s for s in slices if views[s].ready))
            if ready:
                self.merges.append(Merge(gpu, ready, job.id))


def _shares(snapshot: ClusterSnapshot, policy: Policy, ledger: Ledger) -> Shares:
    """By what owners used lately, where that is told; else by what they hold of their quotas."""
    if not snapshot.owners:
        return QuotaShares(ledger)
    return FairShares(
        snapshot.owners,
        capacity_of(snapshot),
        half_life_seconds=policy.half_life_seconds,
        asking={(job.project, job.user) for job in snapshot.jobs},
    )


def _can_place(job: WaitingJob, want: Want, ledger: Ledger) -> bool:
    return find(job, want, ledger) is not None
