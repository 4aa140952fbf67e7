"""Add and remove budgets. Each change is one transaction with its audit line.

How much of a budget is used is read in `portal.allocations.budgets`.
"""

from datetime import datetime
from typing import Any

from django.db import transaction

from agents.contract.message import Message
from portal.accounts.models import Project, User
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.live.bell import ring_plan
from portal.quotas.models import Budget

# A hundred thousand GPUs for ten years: far from the column's end.
MAX_UNIT_SECONDS = 56_000 * 100_000 * 10 * 366 * 86_400


def budget_add(
    *,
    project: Project,
    user: User | None = None,
    limit_unit_seconds: int,
    starts_at: datetime,
    ends_at: datetime,
    actor: str,
) -> Budget:
    """Add a budget; a project may have several, and all of them count. Raises
    Refused(budget_invalid)."""
    if not 0 <= limit_unit_seconds <= MAX_UNIT_SECONDS:
        sentence = Message("A budget must be 0 to %(most)s unit-seconds", most=MAX_UNIT_SECONDS)
        raise Refused(ErrorCode.BUDGET_INVALID, sentence, "limit_unit_seconds")
    if ends_at <= starts_at:
        raise Refused(ErrorCode.BUDGET_INVALID, "A budget must end after it starts", "ends_at")
    with transaction.atomic():
        row = Budget.objects.create(
            project=project,
            user=user,
            limit_unit_seconds=limit_unit_seconds,
            starts_at=starts_at,
            ends_at=ends_at,
        )
        _audit(AuditAction.BUDGET_ADD, row, actor, {}, _facts(row))
        ring_plan()
    return row


def budget_remove(*, budget: Budget, actor: str) -> None:
    """Remove a budget. The allocations, and so the usage, stay."""
    with transaction.atomic():
        _audit(AuditAction.BUDGET_REMOVE, budget, actor, _facts(budget), {})
        budget.delete()
        ring_plan()


def _facts(row: Budget) -> dict[str, Any]:
    return {
        "user": row.user.username if row.user else "",
        "limit_unit_seconds": row.limit_unit_seconds,
        "starts_at": row.starts_at.isoformat(),
        "ends_at": row.ends_at.isoformat(),
    }


def _audit(
    action: AuditAction, row: Budget, actor: str, before: dict[str, Any], after: dict[str, Any]
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
