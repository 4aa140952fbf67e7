"""Change how much a project, or one user inside it, may hold at once."""

import re

from django.db import transaction

from agents.contract.phrase import Phrase
from portal.accounts.models import Project, User
from portal.audit.services import audit_record
from portal.database.locks import lock_rows
from portal.errors import Refused
from portal.inventory.boards import quota_model_names
from portal.jobs.models import Allocation
from portal.live.bell import ring, ring_plan
from portal.quotas.models import Quota

# A hundred thousand GPUs: far from the columns' end, so that no sum overflows.
MAX_LIMIT_UNITS = 56_000 * 100_000
MODEL = re.compile(r"|[A-Za-z0-9][A-Za-z0-9 ._-]{0,127}")


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
    """Set a limit; work that is held beyond a lowered one goes on and frees it as it ends.

    `model`: of GPUs of this model only. Borrowing and lending are the project's; None leaves them.
    `version` is the one the caller has seen, 0 for a row that must not exist yet. Raises
    Refused(limit_invalid, model_invalid, project_only, over_project_limit, version_stale).
    """
    given = {"limit_units": limit_units, "borrow_units": borrow_units, "lend_units": lend_units}
    wanted = {name: units for name, units in given.items() if units is not None}
    _require_sane(user, model, wanted)
    with transaction.atomic():
        # Locking every row of the project also keeps new allocations of it out until we commit.
        rows = lock_rows(Quota.objects.filter(project=project))
        whole = next((r for r in rows if r.model == model and r.user_id is None), None)
        row = next((r for r in rows if r.model == model and r.user == user), None)
        _require_version(row, version)
        if user is not None:
            _require_within(whole, limit_units)
        before = {name: getattr(row, name) for name in wanted} if row else {}
        row = row or _new(project, user, model, whole)
        for name, units in wanted.items():
            setattr(row, name, units)
        row.version += 1
        _guarded(row).save()
        if user is None:
            _borrow_with(row, [r for r in rows if r.model == model and r.user_id])
        audit_record(
            actor=actor,
            action="quota_set",
            noun="quota",
            noun_id="/".join(filter(None, (project.slug, user.username if user else "", model))),
            project=project,
            before=before,
            after=wanted,
        )
        ring_plan()
        ring("cluster")
    return row


def _require_sane(user: User | None, model: str, wanted: dict[str, int]) -> None:
    for name, units in wanted.items():
        if not 0 <= units <= MAX_LIMIT_UNITS:
            sentence: str = Phrase(
                "A limit is 0 to %(most)s units; one GPU is 56,000", most=MAX_LIMIT_UNITS
            )
            raise Refused("limit_invalid", sentence, name)
    if not MODEL.fullmatch(model):
        raise Refused("model_invalid", "Write a model of GPU, such as H200", "model")
    if user is not None and len(wanted) > 1:
        sentence = "Users borrow and lend with their project. Set it there"
        raise Refused("project_only", sentence, "borrow_units")


def _guarded(row: Quota) -> Quota:
    """The database lets nobody hold more than this, except what is held already."""
    row.guard_units = max(row.limit_units + row.borrow_units, row.used_units)
    return row


def _borrow_with(whole: Quota, rows: list[Quota]) -> None:
    """Users borrow with their project."""
    for row in rows:
        if row.borrow_units != whole.borrow_units:
            row.borrow_units = whole.borrow_units
            _guarded(row).save(update_fields=["borrow_units", "guard_units"])


def _require_version(row: Quota | None, version: int | None) -> None:
    if version is not None and version != (row.version if row else 0):
        sentence = "Somebody changed this quota since you read it. Read it again"
        raise Refused("version_stale", sentence, "", 412)


def _require_within(whole: Quota | None, limit_units: int) -> None:
    if whole and limit_units > whole.limit_units:
        sentence = Phrase(
            "The project itself may hold %(n)s units. Ask for no more", n=whole.limit_units
        )
        raise Refused("over_project_limit", sentence, "limit_units")


def _new(project: Project, user: User | None, model: str, whole: Quota | None) -> Quota:
    """A row that starts with what is held already. Version 0 becomes 1 when it is saved."""
    live = Allocation.objects.live().filter(project=project)
    if user is not None:
        live = live.filter(user=user)
    used = sum(
        row.units
        for row in live.select_related("slice__gpu")
        if model in quota_model_names(row.slice.gpu)
    )
    borrow = whole.borrow_units if whole and user is not None else 0
    return Quota(
        project=project, user=user, model=model, used_units=used, borrow_units=borrow, version=0
    )
