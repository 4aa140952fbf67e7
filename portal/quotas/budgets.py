"""Budgets: how many unit-seconds a project, or one user in it, may use in a time, and how many are.

Each change is one transaction with its audit line.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q, Sum
from django.db.models.functions import Coalesce

from portal.accounts.models import Project, User
from portal.audit.services import audit_record
from portal.errors import Refused
from portal.jobs.models import Allocation
from portal.live.bell import ring_plan
from portal.quotas.models import Budget
from scheduler.core.states import ALLOCATION_LIVE, JobStatus
from scheduler.core.values import BudgetView

# A hundred thousand GPUs for ten years: far from the column's end.
MAX_UNIT_SECONDS = 56_000 * 100_000 * 10 * 366 * 86_400
SECOND = timedelta(seconds=1)


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
        sentence = f"A budget is 0 to {MAX_UNIT_SECONDS} unit-seconds"
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


def budgets_now(now: datetime) -> tuple[BudgetView, ...]:
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
    ended = _ended(rows)
    open_rows = list(_open(rows))
    return tuple(_view(row, ended, open_rows, now) for row in rows)


def _ended(budgets: list[Budget]) -> list[dict[str, Any]]:
    """Unit-seconds of what was bound and released inside each window, by project and user."""
    used = F("units") * F("used_seconds")
    sums = {
        _window(start): Sum(used, filter=Q(bound_at__gte=start))
        for start in {b.starts_at for b in budgets}
    }
    first = min(b.starts_at for b in budgets)
    rows = Allocation.objects.filter(
        project_id__in={b.project_id for b in budgets}, bound_at__gte=first
    ).exclude(released_at=None)
    return [dict(row) for row in rows.order_by().values("project_id", "user_id").annotate(**sums)]


def _open(budgets: list[Budget]) -> list[tuple[Any, ...]]:
    """What is held now, or began before a window and ended inside it."""
    straddling = Q()
    for start in {b.starts_at for b in budgets}:
        straddling |= Q(bound_at__lt=start, released_at__gt=start)
    live = Q(status__in=[str(s) for s in ALLOCATION_LIVE])
    rows = Allocation.objects.filter(
        live | straddling, project_id__in={b.project_id for b in budgets}
    )
    job = "replica__attempt__job__"
    limit = F(job + "time_limit_seconds") - F(job + "attained_seconds")
    return list(
        rows.order_by("id").values_list(
            "project_id",
            "user_id",
            "units",
            "bound_at",
            "released_at",
            Coalesce(F(job + "started_at"), F("reserved_at")),
            limit,
            job + "status",
        )
    )


def _view(
    row: Budget, ended: list[dict[str, Any]], open_rows: list[tuple[Any, ...]], now: datetime
) -> BudgetView:
    used = sum(
        int(sums[_window(row.starts_at)] or 0)
        for sums in ended
        if _counts(row, sums["project_id"], sums["user_id"])
    )
    held = 0
    for project_id, user_id, units, bound_at, released_at, started_at, limit, status in open_rows:
        if not _counts(row, project_id, user_id):
            continue
        if bound_at and (released_at is None or bound_at < row.starts_at):
            end = released_at or now
            used += units * max(0, (end - max(bound_at, row.starts_at)) // SECOND)
        if released_at is None and status != JobStatus.STOPPING:
            end = min(started_at + timedelta(seconds=limit), row.ends_at)
            held += units * max(0, (end - now) // SECOND)
    return BudgetView(
        project=row.project.slug,
        user=row.user.username if row.user else "",
        limit_unit_seconds=row.limit_unit_seconds,
        used_unit_seconds=used,
        held_unit_seconds=held,
        ends_at=int(row.ends_at.timestamp()),
    )


def _counts(row: Budget, project_id: int, user_id: int) -> bool:
    return row.project_id == project_id and row.user_id in (None, user_id)


def _window(start: datetime) -> str:
    return f"since_{int(start.timestamp() * 1_000_000)}"


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
