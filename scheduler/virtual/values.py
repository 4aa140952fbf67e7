"""What a World is told: the jobs that were recorded, and the cluster to play them on. Frozen.

Times in whole seconds since the epoch, amounts as in `scheduler.core.model.snapshot`.
"""

from dataclasses import dataclass, field

from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import NodeView, OwnerView, PastRun, QuotaView, WaitingJob


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """One job as it happened. `job` as it was when it was queued first, at `job.queued_at`.

    `ran_seconds`: how long it held its devices, over all attempts, at most its limit; of a job that
    has not ended an estimate. `completed`: it ended by itself. `withdrawn_at`: it left the queue
    then without ever having started; 0 where it started. `waited_seconds`: how long it stood in
    the queue in all; None where it never started.
    `was_held`: it held devices when the window began. What it had run before the window is its
    job's `attained_seconds`, and no part of `ran_seconds`.
    `is_counted`: it was queued inside the window, so that figures are about it.
    """

    job: WaitingJob
    ran_seconds: int
    completed: bool = True
    withdrawn_at: int = 0
    waited_seconds: int | None = None
    was_running: bool = False
    is_counted: bool = True


@dataclass(frozen=True, slots=True)
class RecordedWindow:
    """The jobs of a window from `since` to `until`, however long it is."""

    since: int
    until: int
    jobs: tuple[RecordedJob, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """The cluster to play on: empty nodes, limits and rules. `owners`: what was used by `since`.

    `dwell_seconds`: a GPU carved anew keeps its idle slices for so long. `past`: runs that ended
    before the window, which the fair order learns from."""

    nodes: tuple[NodeView, ...]
    quotas: tuple[QuotaView, ...] = ()
    policy: Policy = field(default_factory=Policy)
    owners: tuple[OwnerView, ...] = ()
    dwell_seconds: int = 0
    history: tuple[PastRun, ...] = ()


@dataclass(frozen=True, slots=True)
class PreemptionCosts:
    """What it means to be stopped for others; by default as in the product.

    `restart_seconds`: lost at every start but the first. `keeps_place`: a stopped job keeps its age
    in the queue; otherwise it queues anew. `moves_count`: who is stopped only to go on elsewhere is
    protected the longer for it, as after any stop. `look_seconds`: ends of protection are looked
    at on this grid."""

    restart_seconds: int = 0
    keeps_place: bool = True
    moves_extend_protection: bool = True
    recheck_seconds: int = 1
