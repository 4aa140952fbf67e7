"""Quotas: set the limits of a project or of one user in it, and count what is allocated.

This module is the only writer of the counters `used_units` and `guard_units`. The caller locks the
rows of the quotas first (see `portal.database.locks`).
"""

import re
from collections.abc import Mapping

from django.db import transaction
from django.db.models import Case, F, PositiveBigIntegerField, Value, When
from django.db.models.functions import Greatest

from agents.contract.message import Message
from portal.accounts.models import Project, User
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.live.bell import ring, ring_plan
from portal.quotas.models import Quota

# A hundred thousand GPUs: far from the columns' end, so that no sum overflows.
MAX_LIMIT_UNITS = 56_000 * 100_000
MODEL_PATTERN = re.compile(r"|[A-Za-z0-9][A-Za-z0-9 ._-]{0,127}")


def quotas_take(units_by_quota: Mapping[int, int]) -> None:
    """Count newly allocated units, in one UPDATE. Raises IntegrityError where the total of a quota
    would exceed its `guard_units`.

    `units_by_quota`: units by the primary key of the quota.
    """
    if units_by_quota:
        rows = Quota.objects.filter(pk__in=units_by_quota)
        rows.update(used_units=F("used_units") + _units_of(units_by_quota))


def quotas_return(units_by_quota: Mapping[int, int]) -> None:
    """Give released units back, in one UPDATE. The guard falls with them, down to what the quota
    allows.

    `units_by_quota`: units by the primary key of the quota.
    """
    if units_by_quota:
        rows = Quota.objects.filter(pk__in=units_by_quota)
        used = F("used_units") - _units_of(units_by_quota)
        guard = Greatest(F("limit_units") + F("borrow_units"), used)
        rows.update(used_units=used, guard_units=guard)


def _units_of(units_by_quota: Mapping[int, int]) -> Case:
    """The units of the row's own quota."""
    cases = [When(pk=pk, then=Value(units)) for pk, units in units_by_quota.items()]
    return Case(*cases, output_field=PositiveBigIntegerField())


def quota_set(
    *,
    project: Project,
    user: User | None = None,
    model: str = "",
    limit_units: int,
    borrow_units: int | None = None,
    lend_units: int | None = None,
    actor: str,
    version: int | None = None,
) -> Quota:
    """Set a limit. Work that exceeds a lowered limit goes on; the quota recovers as it ends.

    `model`: count only GPUs of this model. Only a project borrows and lends; None leaves the value.
    `version`: the one that the caller has read; 0 for a quota that must not exist yet. Raises
    Refused(limit_invalid, model_invalid, project_only, over_project_limit, version_stale).
    """
    amounts = {"limit_units": limit_units, "borrow_units": borrow_units, "lend_units": lend_units}
    changes = {name: units for name, units in amounts.items() if units is not None}
    _require_valid(user, model, changes)
    with transaction.atomic():
        # Locking every row of the project also keeps out new allocations until the commit.
        rows = Quota.objects.filter(project=project).lock_rows()
        project_row = next((r for r in rows if r.model == model and r.user_id is None), None)
        row = next((r for r in rows if r.model == model and r.user == user), None)
        _require_version(row, version)
        if user is not None:
            _require_within_project(project_row, limit_units)
        before = {name: getattr(row, name) for name in changes} if row else {}
        row = row or _new_row(project, user, model, project_row)
        for name, units in changes.items():
            setattr(row, name, units)
        row.version += 1
        _set_guard(row)
        row.save()
        if user is None:
            _copy_borrowing(row, [r for r in rows if r.model == model and r.user_id])
        audit_record(
            actor=actor,
            action=AuditAction.QUOTA_SET,
            noun="quota",
            noun_id="/".join(filter(None, (project.slug, user.username if user else "", model))),
            project=project,
            before=before,
            after=changes,
        )
        ring_plan()
        ring("cluster")
    return row


def _require_valid(user: User | None, model: str, changes: dict[str, int]) -> None:
    for name, units in changes.items():
        if not 0 <= units <= MAX_LIMIT_UNITS:
            sentence = Message(
                "A limit must be 0 to %(most)s units. One GPU is 56,000 units", most=MAX_LIMIT_UNITS
            )
            raise Refused(ErrorCode.LIMIT_INVALID, sentence, name)
    if not MODEL_PATTERN.fullmatch(model):
        raise Refused(ErrorCode.MODEL_INVALID, "Enter a GPU model, such as H200", "model")
    if user is not None and len(changes) > 1:
        sentence = Message("Only projects borrow and lend. Set it for the project")
        raise Refused(ErrorCode.PROJECT_ONLY, sentence, "borrow_units")


def _set_guard(row: Quota) -> None:
    """The database refuses more than the quota allows, except what is allocated already."""
    row.guard_units = max(row.limit_units + row.borrow_units, row.used_units)


def _copy_borrowing(project_row: Quota, user_rows: list[Quota]) -> None:
    """Users borrow with their project."""
    for row in user_rows:
        if row.borrow_units != project_row.borrow_units:
            row.borrow_units = project_row.borrow_units
            _set_guard(row)
            row.save(update_fields=["borrow_units", "guard_units"])


def _require_version(row: Quota | None, version: int | None) -> None:
    if version is not None and version != (row.version if row else 0):
        sentence = "This quota changed since you read it. Read it again"
        raise Refused(ErrorCode.VERSION_STALE, sentence)


def _require_within_project(project_row: Quota | None, limit_units: int) -> None:
    if project_row and limit_units > project_row.limit_units:
        sentence = Message(
            "The project's own limit is %(n)s units. Enter no more than that",
            n=project_row.limit_units,
        )
        raise Refused(ErrorCode.OVER_PROJECT_LIMIT, sentence, "limit_units")


def _new_row(project: Project, user: User | None, model: str, project_row: Quota | None) -> Quota:
    """A row that starts with what is allocated already. Version 0 becomes 1 when it is saved."""
    # By the reverse relation: the model of allocations belongs to a layer above this one.
    allocated = project.allocations.live()
    if user is not None:
        allocated = allocated.filter(user=user)
    used_units = sum(
        row.units for row in allocated.select_related("slice__gpu") if model in row.quota_models
    )
    return Quota(
        project=project,
        user=user,
        model=model,
        used_units=used_units,
        borrow_units=project_row.borrow_units if project_row and user is not None else 0,
        version=0,
    )
