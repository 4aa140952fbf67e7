"""Change how much a project, or one user inside it, may hold at once."""

from django.db import transaction
from django.db.models import Sum

from portal.accounts.models import Project, User
from portal.audit.services import audit_record
from portal.duties.locks import locked
from portal.errors import Refused
from portal.jobs.models import Allocation
from portal.live.bell import ring, ring_plan
from portal.quotas.models import Quota
from scheduler.core.states import ALLOCATION_LIVE

# A hundred thousand GPUs: far from the columns' end, so that no sum overflows.
MAX_LIMIT_UNITS = 56_000 * 100_000


def quota_set(
    *,
    project: Project,
    user: User | None = None,
    limit_units: int,
    actor: str,
    version: int | None = None,
) -> Quota:
    """Set a limit; work that is held beyond a lowered one goes on and frees it as it ends.

    `version` is the one the caller has seen, 0 for a row that must not exist yet. Raises
    Refused(limit_invalid, over_project_limit, version_stale).
    """
    if not 0 <= limit_units <= MAX_LIMIT_UNITS:
        sentence = f"A limit is 0 to {MAX_LIMIT_UNITS} units; one GPU is 56,000"
        raise Refused("limit_invalid", sentence, "limit_units")
    with transaction.atomic():
        # Locking every row of the project also keeps new allocations of it out until we commit.
        rows = {row.user_id: row for row in locked(Quota.objects.filter(project=project))}
        row = rows.get(user.pk if user else None)
        _require_version(row, version)
        if user is not None:
            _require_within(rows.get(None), limit_units)
        before = row.limit_units if row else None
        row = row or _new(project, user)
        row.limit_units = limit_units
        row.guard_units = max(limit_units, row.used_units)
        row.version += 1
        row.save()
        audit_record(
            actor=actor,
            action="quota_set",
            noun="quota",
            noun_id=f"{project.slug}/{user.username}" if user else project.slug,
            project=project,
            before={} if before is None else {"limit_units": before},
            after={"limit_units": limit_units},
        )
        ring_plan()
        ring("cluster")
    return row


def _require_version(row: Quota | None, version: int | None) -> None:
    if version is not None and version != (row.version if row else 0):
        sentence = "Somebody changed this quota since you read it. Read it again"
        raise Refused("version_stale", sentence, "", 412)


def _require_within(whole: Quota | None, limit_units: int) -> None:
    if whole and limit_units > whole.limit_units:
        sentence = f"The project itself may hold {whole.limit_units} units. Ask for no more"
        raise Refused("over_project_limit", sentence, "limit_units")


def _new(project: Project, user: User | None) -> Quota:
    """A row that starts with what is held already. Version 0 becomes 1 when it is saved."""
    held = Allocation.objects.filter(
        project=project, status__in=[str(status) for status in ALLOCATION_LIVE]
    )
    if user is not None:
        held = held.filter(user=user)
    used = held.aggregate(units=Sum("units"))["units"] or 0
    return Quota(project=project, user=user, used_units=used, version=0)
