"""Removes old lines of the audit trail, if so set, and leaves a line that says so."""

import json
from datetime import datetime

from django.db import transaction
from django.db.models import Count, Min, QuerySet

from portal.audit.codes import AuditAction
from portal.audit.models import AuditEntry
from portal.audit.services import audit_record
from portal.audit.transitions import SYSTEM
from portal.retention.limits import RetentionLimits, StoredUse

# Each run with something to remove leaves a line, so it removes more than one of other kinds.
BATCH = 5_000
# The size is that of the newest ones, with this much for the other columns and indexes.
SAMPLE = 200
ROW_BYTES = 350


def audit_use(limits: RetentionLimits) -> StoredUse:
    """The bytes are an estimate. Two queries."""
    found = _removable().aggregate(count=Count("pk"), oldest=Min("at"))
    count = found["count"]
    return StoredUse(count, count * _row_bytes() if count else 0, limits, found["oldest"])


def audit_remove(*, limits: RetentionLimits, now: datetime) -> int:
    """Remove at most a batch, the oldest first. How many.

    Only whole days go, so that there is one line about it a day and not one a minute."""
    cutoff = limits.cutoff(now)
    if cutoff is None:
        return 0
    midnight = cutoff.replace(hour=0, minute=0, second=0, microsecond=0)
    rows = _removable().filter(at__lt=midnight).order_by("pk")
    keys = list(rows.values_list("pk", flat=True)[:BATCH])
    if not keys:
        return 0
    with transaction.atomic():
        removed, _ = AuditEntry.objects.filter(pk__in=keys).delete()
        audit_record(
            actor=SYSTEM,
            action=AuditAction.AUDIT_REMOVE,
            noun="audit",
            noun_id=f"{midnight:%Y-%m-%d}",
            after={"lines": removed, "before": f"{midnight:%Y-%m-%d}"},
        )
    return removed


def _removable() -> QuerySet[AuditEntry]:
    """Not the lines of the ready templates: by them Tessera knows that it has added those."""
    return AuditEntry.objects.exclude(actor=SYSTEM, action=AuditAction.TEMPLATE_SAVE)


def _row_bytes() -> int:
    rows = list(AuditEntry.objects.order_by("-pk").values_list("before", "after")[:SAMPLE])
    sizes = [len(json.dumps(before)) + len(json.dumps(after)) for before, after in rows]
    return ROW_BYTES + (sum(sizes) // len(sizes) if sizes else 0)
