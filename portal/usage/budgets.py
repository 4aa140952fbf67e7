"""Quotas and budgets that somebody may see, with what will be used of them until they end."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Q

from portal.accounts.models import Membership, User
from portal.allocations.budgets import budget_views
from portal.jobs.models import Allocation
from portal.quotas.models import Budget, Quota
from portal.usage.forecast import PACE_PERIOD, BudgetForecast, forecast_budget, pace_start
from portal.usage.ledger import UsageWindow, unit_seconds_and_first_use
from portal.usage.selectors import ALL, UsageScope
from scheduler.core.model.snapshot import BudgetView

Owner = tuple[int, int]

# More than a page can hold; those that end first are shown.
MAX_ROWS = 20


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """A budget that counts now. `user` empty: of the whole project. Unit-seconds."""

    project: str
    user: str
    limit_unit_seconds: int
    used_unit_seconds: int
    reserved_unit_seconds: int
    starts_at: datetime
    ends_at: datetime
    forecast: BudgetForecast

    @property
    def used_by_end(self) -> int | None:
        return self.forecast.used_by_end

    @property
    def is_sufficient(self) -> bool | None:
        """None where there is nothing to go by."""
        return None if self.used_by_end is None else self.used_by_end <= self.limit_unit_seconds


def visible_limits(user: User, scope: UsageScope) -> Q:
    """The quotas and budgets of a scope that the user may see: a project's own, one's own, and
    those of others where one runs the project."""
    if scope.name == ALL:
        return Q()
    mine = Q(user__isnull=True) | Q(user=user)
    if scope.project is not None:
        return Q(project=scope.project) & (Q() if scope.is_admin else mine)
    return Q(project_id__in=Membership.objects.filter(user=user).values("project_id")) & mine


def budget_statuses(condition: Q, now: datetime) -> list[BudgetStatus]:
    """The budgets that count now, those that end first. Five queries, one where there are none."""
    open_now = Budget.objects.filter(condition, starts_at__lte=now, ends_at__gt=now)
    rows = list(open_now.select_related("project", "user").order_by("ends_at", "id")[:MAX_ROWS])
    if not rows:
        return []
    of_these = Allocation.objects.filter(project_id__in={row.project_id for row in rows})
    # Whoever began less than seven days ago has used nothing before that.
    lately, firsts = unit_seconds_and_first_use(of_these, UsageWindow(now - PACE_PERIOD, now, now))
    views = zip(rows, budget_views(rows, now), strict=True)
    return [_line(row, view, firsts, lately, now) for row, view in views]


def _line(
    row: Budget,
    view: BudgetView,
    firsts: Mapping[Owner, datetime],
    lately: Mapping[Owner, int],
    now: datetime,
) -> BudgetStatus:
    first = min((at for owner, at in firsts.items() if _counts(row, owner)), default=None)
    told = forecast_budget(
        used_unit_seconds=view.used_unit_seconds,
        limit_unit_seconds=row.limit_unit_seconds,
        ends_at=row.ends_at,
        recent_unit_seconds=sum(used for owner, used in lately.items() if _counts(row, owner)),
        since=pace_start(first, now),
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
        forecast=told,
    )


def visible_quota_rows(condition: Q) -> list[Quota]:
    """The quotas with what is held of them, at most MOST. One query."""
    rows = Quota.objects.filter(condition).select_related("project", "user")
    return list(
        rows.order_by("project__slug", F("user__username").asc(nulls_first=True))[:MAX_ROWS]
    )


def _counts(row: Budget, owner: Owner) -> bool:
    return row.project_id == owner[0] and row.user_id in (None, owner[1])
