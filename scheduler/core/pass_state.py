"""The state of one planning pass: its input, what it counts, and its decisions so far."""

from collections.abc import Collection
from dataclasses import dataclass, field

from scheduler.core.devices.options import DeviceOption
from scheduler.core.model.decisions import Deferral, JobPlacement, Merge, Preemption
from scheduler.core.model.policy import BackfillMode, Policy
from scheduler.core.model.reasons import Reason
from scheduler.core.model.snapshot import ClusterSnapshot, WaitingJob
from scheduler.core.pass_cache import PassCache
from scheduler.core.placement.ledger import Ledger
from scheduler.core.queue.array_room import ArrayRoom
from scheduler.core.queue.fairshare import FairShares, OwnerKey, cluster_totals
from scheduler.core.queue.order import (
    OwnerShares,
    QueueOrder,
    QuotaShares,
    Rank,
    WorkEstimator,
)
from scheduler.core.queue.preemption import PreemptionCandidates
from scheduler.core.queue.quota_reservation import QuotaReservations
from scheduler.core.queue.reclaim import QuotaReclaim
from scheduler.core.queue.requirements import Requirements, RequirementsTable
from scheduler.core.queue.reservation import JobReservation, ReservationTable
from scheduler.core.queue.running import AllocatedJob, RunningJobs, starting_job
from scheduler.core.queue.starvation import BypassCounter
from scheduler.core.queue.stopping import StoppingJobs

# With conservative backfill this many jobs get a reservation; later ones may still backfill.
MAX_RESERVATIONS = 100


@dataclass(slots=True)
class Turn:
    """A waiting job whose turn it is."""

    job: WaitingJob
    rank: Rank
    requirements: Requirements
    options: list[DeviceOption]
    """The device options that are still open to it; stages narrow them."""
    starting: AllocatedJob = field(init=False)
    """The job as it would run if it started now, still without devices. Set by `begin_devices`."""
    overlapping: list[JobReservation] = field(init=False)
    """Reservations of other jobs that begin before it would end. Set by `begin_devices`."""
    wants_devices: bool = False
    """It has passed admission."""
    failure_key: tuple[object, ...] | None = None
    """What requests have in common that find the same places. None: nothing was tried for it."""
    conflict: JobReservation | None = None
    """The first reservation that a placement of this job would have delayed."""

    @property
    def is_overdue(self) -> bool:
        """It was bypassed as often as the policy allows."""
        return self.rank[1] == 0


@dataclass(slots=True)
class PassState:
    # Input.
    snapshot: ClusterSnapshot
    policy: Policy

    # The cluster and the queue as this pass has changed them so far.
    ledger: Ledger
    requirements: RequirementsTable
    shares: OwnerShares
    order: QueueOrder
    running: RunningJobs
    """As the pass began."""
    allocated: dict[str, AllocatedJob]
    """Jobs that have devices, or get them by this pass, by id."""
    array_room: ArrayRoom
    candidates: PreemptionCandidates
    reclaim: QuotaReclaim
    stopping: StoppingJobs
    reservations: ReservationTable
    quota_reservations: QuotaReservations
    bypasses: BypassCounter

    # Decisions, in the order in which they were made.
    placements: list[JobPlacement] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)
    preemptions: list[Preemption] = field(default_factory=list)
    deferrals: list[Deferral] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)
    """Ids of the jobs that could start now if enough devices were free."""
    failures: dict[object, Reason] = field(default_factory=dict)
    """Requests that found no place. The ledger only fills up, so an equal request cannot find one
    later in the pass."""
    full_quotas: set[object] = field(default_factory=set)
    """Requests for which no work within their quota could stop, for the same reason."""

    @classmethod
    def begin(
        cls,
        snapshot: ClusterSnapshot,
        policy: Policy,
        runtime_model: WorkEstimator | None,
        cache: PassCache,
        waiting_owners: Collection[OwnerKey] | None = None,
        running: RunningJobs | None = None,
    ) -> "PassState":
        """`waiting_owners`: None takes the owners of the snapshot's jobs. `running`: of a pass over
        a snapshot that differs in the waiting jobs alone, with the same owners."""
        ledger, requirements = cache.prepare(snapshot)
        shares = _owner_shares(snapshot, policy, ledger, waiting_owners)
        order = QueueOrder(policy, snapshot.now, requirements.gpus, shares, runtime_model)
        running = running or RunningJobs(snapshot, policy, order)
        allocated = dict(running.allocated)
        return cls(
            snapshot=snapshot,
            policy=policy,
            ledger=ledger,
            requirements=requirements,
            shares=shares,
            order=order,
            running=running,
            allocated=allocated,
            array_room=ArrayRoom(snapshot.running),
            candidates=PreemptionCandidates(policy, running),
            reclaim=QuotaReclaim(snapshot, policy, ledger),
            stopping=StoppingJobs(ledger),
            reservations=ReservationTable(snapshot.now, policy, ledger, allocated),
            quota_reservations=QuotaReservations(ledger.accounts),
            bypasses=BypassCounter(policy.bypass_limit),
        )

    def jobs_that_hold(self) -> set[str]:
        """Ids of the jobs that hold something after their turn: a place, a reservation or reserved
        quota. Also the first blocked job, which without backfill holds up all others."""
        reserved = {reservation.job.id for reservation in self.reservations.entries}
        holding = self.allocated.keys() | reserved | self.quota_reservations.job_ids()
        return holding | set(self.blocked[:1])

    @property
    def has_limits(self) -> bool:
        return bool(self.snapshot.quotas or self.snapshot.budgets or self.snapshot.owners)

    def turn(self, job: WaitingJob, rank: Rank) -> Turn:
        requirements = self.requirements.of(job)
        return Turn(job, rank, requirements, requirements.options)

    def last_turn(self, job: WaitingJob) -> Turn:
        """The turn of a job that comes after all others."""
        key, factor = self.order.waiting_key(job), self.order.owner_factor(job)
        return self.turn(job, self.order.rank(job, key, factor))

    def begin_devices(self, turn: Turn) -> None:
        """Fill in what the search for devices needs. Separate, as most turns of a long queue end
        before it."""
        rank = self.order.rank_once_running(turn.job, turn.rank)
        turn.starting = starting_job(turn.job, (), rank, self.snapshot.now, self.policy)
        turn.overlapping = self.reservations.overlapping(turn.starting)

    def max_reservations(self, turn: Turn) -> int:
        """How many reservations may exist before this job gets none. Overdue jobs may always get
        one, unless nothing is backfilled."""
        backfill = self.policy.backfill
        if turn.is_overdue and backfill is not BackfillMode.NONE:
            return MAX_RESERVATIONS
        if backfill is BackfillMode.EASY:
            return self.policy.reservations
        return MAX_RESERVATIONS if backfill is BackfillMode.CONSERVATIVE else 0


def _owner_shares(
    snapshot: ClusterSnapshot,
    policy: Policy,
    ledger: Ledger,
    waiting_owners: Collection[OwnerKey] | None,
) -> OwnerShares:
    """By recent use where the snapshot has it; otherwise by the part of their quotas in use."""
    if not snapshot.owners:
        return QuotaShares(ledger)
    if waiting_owners is None:
        waiting_owners = {(job.project, job.user) for job in snapshot.jobs}
    return FairShares(
        snapshot.owners,
        cluster_totals(snapshot),
        half_life_seconds=policy.half_life_seconds,
        waiting_owners=waiting_owners,
    )
