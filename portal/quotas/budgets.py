"""Budgets: how many unit-seconds a project, or one user in it, may use in a time, and how many are.

Each change is one transaction with its audit line.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet, Sum, Value
from django.db.models.functions import Coalesce, Greatest, Least

from agents.contract.phrase import Phrase
from portal.accounts.models import Project, User
from portal.audit.services import audit_record
from portal.database.intervals import NextSecond, epoch_seconds, lease_unit_seconds, overlaps
from portal.errors import Refused
from portal.jobs.models import Allocation
from portal.live.bell import ring_plan
from portal.quotas.models import Budget
from scheduler.core.model.snapshot import BudgetView
from scheduler.core.model.states import JobStatus

# A hundred thousand GPUs for ten years: far from the column's end.
MAX_UNIT_SECONDS = 56_000 * 100_000 * 10 * 366 * 86_400

Sums = list[dict[str, Any]]


def budget_add(
    *,
    project: Project,
    user: User | None = None,
    limit_unit_seconds: int,
    starts_at: datetime,
    ends_at: datetime,
    actor: str,
) -> Budget:
    """A budget beside those there are: all of them count. Raises Refused(budget_invalid)."""
    if not 0 <= limit_unit_seconds <= MAX_UNIT_SECONDS:
        sentence = Phrase("A budget is 0 to %(most)s unit-seconds", most=MAX_UNIT_SECONDS)
        raise Refused("budget_invalid", sentence, "limit_unit_seconds")
    if ends_at <= starts_at:
        raise Refused("budget_invalid", "A budget ends after it starts", "ends_at")
    with transaction.atomic():
        row = Budget.objects.create(
            project=project,
            user=user,
            limit_unit_seconds=limit_unit_seconds,
            starts_at=starts_at,
            ends_at=ends_at,
        )
        _audit("budget_add", row, actor, {}, _facts(row))
        ring_plan()
    return row


def budget_remove(*, budget: Budget, actor: str) -> None:
    """Take a budget away; what was used stays in the allocations."""
    with transaction.atomic():
        _audit("budget_remove", budget, actor, _facts(budget), {})
        budget.delete()
        ring_plan()


def current_budgets(now: datetime) -> tuple[BudgetView, ...]:
    """The budgets that count now, with what is used and what running work may still use of them.
    Three queries, however many budgets and allocations there are."""
    rows = list(
        Budget.objects.filter(starts_at__lte=now, ends_at__gt=now)
        .select_related("project", "user")
        .order_by("id")
    )
    return budget_views(rows, now)


def budget_views(rows: list[Budget], now: datetime) -> tuple[BudgetView, ...]:
    """The same of these budgets, in their order, which have their project and user. Two queries."""
    if not rows:
        return ()
    used, held = _used(rows, now), _held(rows, now)
    return tuple(
        BudgetView(
            project=row.project.slug,
            user=row.user.username if row.user else "",
            limit_unit_seconds=row.limit_unit_seconds,
            used_unit_seconds=_of(row, used, row.starts_at),
            reserved_unit_seconds=_of(row, held, row.ends_at),
            ends_at=int(row.ends_at.timestamp()),
        )
        for row in rows
    )


def _used(budgets: list[Budget], now: datetime) -> Sums:
    """Unit-seconds by project and user since each time at which a budget starts."""
    starts = {budget.starts_at for budget in budgets}
    sums = {}
    for at in starts:
        until = max(at, now)
        sums[_name(at)] = Sum(lease_unit_seconds(at, until), filter=overlaps(at, until))
    return _by_owner(budgets, Allocation.objects.filter(overlaps(min(starts), now)), sums)


def _held(budgets: list[Budget], now: datetime) -> Sums:
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


def _facts(row: Budget) -> dict[str, Any]:
    return {
        "user": row.user.username if row.user else "",
        "limit_unit_seconds": row.limit_unit_seconds,
        "starts_at": row.starts_at.isoformat(),
        "ends_at": row.ends_at.isoformat(),
    }


def _audit(
    action: str, row: Budget, actor: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    audit_record(
        actor=actor,
        action=action,
        noun="budget",
        noun_id=row.pk,
        project=row.project,
        before=before,
        after=after,
    )
