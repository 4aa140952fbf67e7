"""The input of a simulation: recorded jobs, and the cluster to play them on. Frozen.

Times in whole seconds since the epoch; amounts as in `scheduler.core.model.snapshot`.
"""

from dataclasses import dataclass, field

from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import NodeView, OwnerView, PastRun, QuotaView, WaitingJob


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """One job as it happened."""

    job: WaitingJob
    """As it was when it was queued first, at `job.queued_at`. What it had run before the window is
    its `attained_seconds`."""
    ran_seconds: int
    """How long it had devices inside the window, over all attempts, at most its limit; an estimate
    for a job that has not ended."""
    completed: bool = True
    """It ended by itself."""
    withdrawn_at: int = 0
    """When it left the queue without ever having started; 0: it started."""
    waited_seconds: int | None = None
    """How long it was in the queue in all; None: it never started."""
    was_running: bool = False
    """It had devices when the window began."""
    is_counted: bool = True
    """It was queued inside the window, so the figures include it."""


@dataclass(frozen=True, slots=True)
class RecordedWindow:
    """The jobs of a window from `since` to `until`."""

    since: int
    until: int
    jobs: tuple[RecordedJob, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """The cluster to play on: empty nodes, limits and policy."""

    nodes: tuple[NodeView, ...]
    quotas: tuple[QuotaView, ...] = ()
    policy: Policy = field(default_factory=Policy)
    owners: tuple[OwnerView, ...] = ()
    """What owners had used by the beginning of the window."""
    dwell_seconds: int = 0
    """How long a newly carved GPU keeps its idle slices."""
    history: tuple[PastRun, ...] = ()
    """Runs that ended before the window; the fair order learns from them."""


@dataclass(frozen=True, slots=True)
class PreemptionCosts:
    """What a preemption costs a job; the defaults are the product's."""

    restart_seconds: int = 0
    """Lost at every start but the first."""
    keeps_place: bool = True
    """A stopped job keeps its age in the queue; otherwise it queues anew."""
    moves_extend_protection: bool = True
    """A move doubles the protected time, as any other stop does."""
    recheck_seconds: int = 1
    """Ends of protection are looked at on this grid."""
