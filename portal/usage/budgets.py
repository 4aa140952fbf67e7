"""Budgets and quotas that a user may see, and how far each budget will last."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Q

from portal.accounts.models import Membership, User
from portal.allocations.budgets import budget_views
from portal.allocations.models import Allocation
from portal.quotas.models import Budget, Quota
from portal.usage.forecast import PACE_PERIOD, BudgetForecast, forecast_budget, pace_start
from portal.usage.ledger import UsageWindow, unit_seconds_and_first_use
from portal.usage.selectors import ALL, UsageScope
from scheduler.core.model.snapshot import BudgetView

# Project id and user id.
Owner = tuple[int, int]

# As many as a page has room for.
MAX_ROWS = 20


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """A current budget with its usage and forecast."""

    project: str
    # Empty: the budget of the whole project.
    user: str
    limit_unit_seconds: int
    used_unit_seconds: int
    # What running jobs may still use before the budget ends.
    reserved_unit_seconds: int
    starts_at: datetime
    ends_at: datetime
    forecast: BudgetForecast

    @property
    def used_by_end(self) -> int | None:
        return self.forecast.used_by_end

    @property
    def is_sufficient(self) -> bool | None:
        """None without a forecast."""
        return None if self.used_by_end is None else self.used_by_end <= self.limit_unit_seconds


def visible_limits(user: User, scope: UsageScope) -> Q:
    """Selects the quotas and budgets of a scope that the user may see: their own, those of their
    projects, and those of other members where the user is an admin."""
    if scope.name == ALL:
        return Q()
    own = Q(user__isnull=True) | Q(user=user)
    if scope.project is not None:
        return Q(project=scope.project) & (Q() if scope.is_admin else own)
    return Q(project_id__in=Membership.objects.filter(user=user).values("project_id")) & own


def budget_statuses(condition: Q, now: datetime) -> list[BudgetStatus]:
    """The current budgets, at most MAX_ROWS, those that end first. Five queries; one if there are
    none."""
    budgets = Budget.objects.current(now).filter(condition).select_related("project", "user")
    rows = list(budgets.order_by("ends_at", "id")[:MAX_ROWS])
    if not rows:
        return []
    allocations = Allocation.objects.filter(project_id__in={row.project_id for row in rows})
    recent, first_uses = unit_seconds_and_first_use(
        allocations, UsageWindow(now - PACE_PERIOD, now, now)
    )
    views = zip(rows, budget_views(rows, now), strict=True)
    return [_status(row, view, first_uses, recent, now) for row, view in views]


def _status(
    row: Budget,
    view: BudgetView,
    first_uses: Mapping[Owner, datetime],
    recent: Mapping[Owner, int],
    now: datetime,
) -> BudgetStatus:
    first_use = min((at for owner, at in first_uses.items() if _counts(row, owner)), default=None)
    forecast = forecast_budget(
        used_unit_seconds=view.used_unit_seconds,
        limit_unit_seconds=row.limit_unit_seconds,
        ends_at=row.ends_at,
        # Complete even where the pace began later: nothing was used before the first use.
        recent_unit_seconds=sum(used for owner, used in recent.items() if _counts(row, owner)),
        since=pace_start(first_use, now),
        now=now,
    )
    return BudgetStatus(
        project=row.project.slug,
        user=row.user.username if row.user else "",
        limit_unit_seconds=row.limit_unit_seconds,
        used_unit_seconds=view.used_unit_seconds,
        reserved_unit_seconds=view.reserved_unit_seconds,
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        forecast=forecast,
    )


def visible_quota_rows(condition: Q) -> list[Quota]:
    """The quotas, at most MAX_ROWS, each with its project and user. One query."""
    rows = Quota.objects.filter(condition).select_related("project", "user")
    return list(
        rows.order_by("project__slug", F("user__username").asc(nulls_first=True))[:MAX_ROWS]
    )


def _counts(row: Budget, owner: Owner) -> bool:
    return row.project_id == owner[0] and row.user_id in (None, owner[1])
