"""What a change of a quota or a budget would do, before it is saved. Changes nothing.

Work beyond a lowered limit runs to its end, except borrowed preemptible work: that is preempted
when the lender reclaims its quota.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from django.utils import timezone

from agents.contract.boards import Board
from portal.accounts.models import Project, User
from portal.allocations.budgets import budget_views
from portal.allocations.models import Allocation
from portal.jobs.models import Job
from portal.planning.planner_input import planner_input, queued_jobs
from portal.quotas.budgets import MAX_UNIT_SECONDS
from portal.quotas.models import Budget
from scheduler.core.devices.options import device_options
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import ClusterSnapshot, QuotaView, WaitingJob
from scheduler.core.placement.feasibility import ClusterCapacity

# This many jobs are named; the others are counted.
MAX_NAMED_JOBS = 20


@dataclass(frozen=True, slots=True)
class OverLimitJob:
    """A job whose allocation lies beyond the new limit."""

    job: Job
    units: int
    is_over: bool
    """Beyond the limit with borrowing, too."""
    is_reclaimed: bool
    """It may be preempted: borrowed, and preemptible."""


@dataclass(frozen=True, slots=True)
class BlockedJob:
    """A waiting job that could never run under the new limit, and what it needs."""

    job: Job
    needed_amount: int


@dataclass(frozen=True, slots=True)
class QuotaEffect:
    """Limits include borrowing. Amounts are units, or unit-seconds of a budget."""

    limit_before: int
    limit_after: int
    in_use: int
    over_limit: tuple[OverLimitJob, ...] = ()
    blocked: tuple[BlockedJob, ...] = ()
    blocked_count: int = 0

    @property
    def excess(self) -> int:
        return max(0, self.in_use - self.limit_after)

    @property
    def is_harmless(self) -> bool:
        return not self.excess and not self.blocked and not self.over_limit


def quota_effect(
    *,
    project: Project,
    user: User | None = None,
    model: str = "",
    limit_units: int,
    borrow_units: int = 0,
    lend_units: int = 0,
) -> QuotaEffect:
    """Which jobs would exceed a new quota, and which could never run under it."""
    snapshot = planner_input(now=timezone.now(), policy=Policy(), jobs=queued_jobs())
    name = user.username if user else ""
    old = next((q for q in snapshot.quotas if _is(q, project, name, model)), None)
    borrow = borrow_units if user is None else (old.borrow_units if old else 0)
    rows = _live(project, user, model)
    used = sum(row.units for row in rows)
    new = QuotaView(project.slug, name, limit_units, used, model, borrow, lend_units)
    after = replace(snapshot, quotas=(*(q for q in snapshot.quotas if q is not old), new))
    never = _never(snapshot, after, project, name)
    return QuotaEffect(
        limit_before=old.limit_units + old.borrow_units if old else 0,
        limit_after=limit_units + borrow,
        in_use=used,
        over_limit=_beyond(rows, limit_units, limit_units + borrow),
        blocked=_named(never),
        blocked_count=len(never),
    )


def budget_effect(
    *,
    project: Project,
    user: User | None = None,
    limit_unit_seconds: int,
    starts_at: datetime,
    ends_at: datetime,
) -> QuotaEffect:
    """What counts already against a new budget, and which waiting jobs would never fit in it."""
    now = timezone.now()
    row = Budget(
        project=project,
        user=user,
        limit_unit_seconds=limit_unit_seconds,
        starts_at=starts_at,
        ends_at=ends_at,
    )
    used = 0
    never: dict[int, int] = {}
    if starts_at <= now < ends_at:
        (view,) = budget_views([row], now)
        used = view.used_unit_seconds + view.reserved_unit_seconds
        snapshot = planner_input(now=now, policy=Policy(), jobs=queued_jobs())
        boards = ClusterCapacity(snapshot).boards
        for job in _queued(snapshot, project, user.username if user else ""):
            needed = _units(job, boards) * job.time_limit_seconds
            if needed > max(0, limit_unit_seconds - view.used_unit_seconds):
                never[int(job.id)] = needed
    return QuotaEffect(
        limit_before=MAX_UNIT_SECONDS,
        limit_after=limit_unit_seconds,
        in_use=used,
        blocked=_named(never),
        blocked_count=len(never),
    )


def _is(quota: QuotaView, project: Project, user: str, model: str) -> bool:
    return (quota.project, quota.user, quota.model) == (project.slug, user, model)


def _live(project: Project, user: User | None, model: str) -> list[Allocation]:
    """Live allocations that count against the quota, the newest first."""
    rows = Allocation.objects.live().filter(project=project)
    rows = rows.select_related("slice__gpu", "replica__attempt__job")
    if user is not None:
        rows = rows.filter(user=user)
    return [r for r in rows.order_by("-reserved_at", "-pk") if model in r.quota_models]


def _beyond(rows: list[Allocation], limit: int, most: int) -> tuple[OverLimitJob, ...]:
    """The jobs whose allocations lie beyond the limit, the last to start first. `most`: the limit
    with borrowing."""
    by_job: dict[int, tuple[Job, int]] = {}
    for row in rows:
        job = row.replica.attempt.job
        by_job[job.pk] = job, by_job.get(job.pk, (job, 0))[1] + row.units
    left = sum(units for _, units in by_job.values())
    found = []
    for job, units in by_job.values():
        if left <= limit:
            break
        found.append(OverLimitJob(job, units, is_over=left > most, is_reclaimed=job.preemptible))
        left -= units
    return tuple(found[:MAX_NAMED_JOBS])


def _never(
    before: ClusterSnapshot, after: ClusterSnapshot, project: Project, user: str
) -> dict[int, int]:
    """By waiting job: its units. Only jobs that the new quotas alone would block for ever."""
    was, then = ClusterCapacity(before), ClusterCapacity(after)
    return {
        int(job.id): _units(job, then.boards)
        for job in _queued(before, project, user)
        if then.quota_reason(job) and not was.quota_reason(job)
    }


def _queued(snapshot: ClusterSnapshot, project: Project, user: str) -> list[WaitingJob]:
    return [j for j in snapshot.jobs if j.project == project.slug and user in ("", j.user)]


def _units(job: WaitingJob, boards: list[Board]) -> int:
    each = min((want.replica_units for want in device_options(job.device, boards)), default=0)
    return each * job.replicas


def _named(never: dict[int, int]) -> tuple[BlockedJob, ...]:
    jobs = Job.objects.filter(pk__in=never).select_related("owner", "project").order_by("pk")
    return tuple(BlockedJob(job, never[job.pk]) for job in jobs[:MAX_NAMED_JOBS])
