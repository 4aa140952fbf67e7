"""The usage of budgets, and what running work may still use, summed from allocations."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import DateTimeField, F, QuerySet, Sum, Value
from django.db.models.functions import Coalesce, Greatest, Least

from portal.allocations.models import Allocation
from portal.database.intervals import NextSecond, epoch_seconds, lease_unit_seconds, overlaps
from portal.database.kept_queries import KeptSelect
from portal.quotas.models import Budget
from scheduler.core.model.snapshot import BudgetView
from scheduler.core.model.states import JobStatus

# A budget is nearly used once this share of it is used or reserved.
NEAR_PERCENT = 90

Sums = list[dict[str, Any]]


def current_budgets(now: datetime) -> tuple[BudgetView, ...]:
    """The budgets of this moment with their usage. Three queries, however many budgets and
    allocations there are."""
    return budget_views(_CURRENT.rows(now), now)


_CURRENT = KeptSelect(
    lambda now: Budget.objects.current(now).select_related("project", "user").order_by("id"),
    DateTimeField(),
)


def budget_views(rows: list[Budget], now: datetime) -> tuple[BudgetView, ...]:
    """The usage of these budgets, in their order. Two queries, if `project` and `user` are
    selected."""
    if not rows:
        return ()
    used, reserved = _used(rows, now), _reserved(rows, now)
    return tuple(
        BudgetView(
            project=row.project.slug,
            user=row.user.username if row.user else "",
            limit_unit_seconds=row.limit_unit_seconds,
            used_unit_seconds=_of(row, used, row.starts_at),
            reserved_unit_seconds=_of(row, reserved, row.ends_at),
            ends_at=int(row.ends_at.timestamp()),
        )
        for row in rows
    )


def is_nearly_used(view: BudgetView) -> bool:
    taken = view.used_unit_seconds + view.reserved_unit_seconds
    return taken * 100 >= view.limit_unit_seconds * NEAR_PERCENT


def _used(budgets: list[Budget], now: datetime) -> Sums:
    """Unit-seconds by project and user since the start of each budget."""
    starts = {budget.starts_at for budget in budgets}
    sums = {}
    for at in starts:
        until = max(at, now)
        sums[_name(at)] = Sum(lease_unit_seconds(at, until), filter=overlaps(at, until))
    return _by_owner(budgets, Allocation.objects.filter(overlaps(min(starts), now)), sums)


def _reserved(budgets: list[Budget], now: datetime) -> Sums:
    """What running work may still use until each time at which a budget ends, by project and
    user."""
    job = "replica__attempt__job__"
    started = NextSecond(Coalesce(F(job + "started_at"), F("reserved_at")))
    limit = F(job + "time_limit_seconds") - F(job + "attained_seconds")
    ends = {budget.ends_at for budget in budgets}
    sums = {}
    for at in ends:
        left = Least(started + limit, Value(epoch_seconds(at))) - Value(epoch_seconds(now))
        sums[_name(at)] = Sum(F("units") * Greatest(left, Value(0)))
    live = Allocation.objects.live().filter(released_at__isnull=True)
    return _by_owner(budgets, live.exclude(**{job + "status": JobStatus.STOPPING}), sums)


def _by_owner(budgets: list[Budget], rows: QuerySet[Allocation], sums: Mapping[str, Sum]) -> Sums:
    rows = rows.filter(project_id__in={budget.project_id for budget in budgets}).order_by()
    return [dict(row) for row in rows.values("project_id", "user_id").annotate(**sums)]


def _of(budget: Budget, sums: Sums, at: datetime) -> int:
    owners = (owner for owner in sums if _counts(budget, owner["project_id"], owner["user_id"]))
    return sum(int(owner[_name(at)] or 0) for owner in owners)


def _counts(row: Budget, project_id: int, user_id: int) -> bool:
    return row.project_id == project_id and row.user_id in (None, user_id)


def _name(at: datetime) -> str:
    return f"at_{epoch_seconds(at)}"
