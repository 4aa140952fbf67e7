"""Removes the history of ended jobs, and that of nodes. The audit trail is no part of it: see
`audit_lines.py`."""

import json
from datetime import datetime

from django.db.models import Min, Q, QuerySet

from portal.audit.models import Event
from portal.jobs.querysets import values_of
from portal.retention.limits import BATCH, RetentionLimits, StoredUse
from scheduler.core.model.states import JOB_FINAL

# Events are counted; their size is that of the newest ones, with this much for the other columns
# and indexes.
SAMPLE = 200
ROW_BYTES = 250


def events_use(limits: RetentionLimits) -> StoredUse:
    """The bytes are an estimate. Three queries."""
    count = Event.objects.count()
    oldest = _ended().aggregate(at=Min("job__finished_at"))["at"]
    return StoredUse(count, count * _event_bytes() if count else 0, limits, oldest)


def events_remove(*, limits: RetentionLimits, now: datetime) -> int:
    """Remove events that are too old, then those of the jobs that ended first while all are too
    large; at most a batch. How many."""
    removed = 0
    if cutoff := limits.cutoff(now):
        of_nodes = Q(job__isnull=True, at__lt=cutoff)
        of_jobs = Q(job__status__in=values_of(JOB_FINAL), job__finished_at__lt=cutoff)
        rows = Event.objects.filter(of_nodes | of_jobs)
        removed += _delete(rows.order_by("pk"), BATCH)
    if limits.mib and removed < BATCH:
        use = events_use(limits)
        count = -(-use.excess_bytes * use.count // use.bytes) if use.bytes else 0
        rows = _ended().order_by("job__finished_at", "pk")
        removed += _delete(rows, min(count, BATCH - removed))
    return removed


def _ended() -> QuerySet[Event]:
    """Those that the limits may remove."""
    return Event.objects.filter(job__status__in=values_of(JOB_FINAL))


def _delete(rows: QuerySet[Event], limit: int) -> int:
    keys = list(rows.values_list("pk", flat=True)[:limit])
    return Event.objects.filter(pk__in=keys).delete()[0] if keys else 0


def _event_bytes() -> int:
    rows = list(Event.objects.order_by("-pk").values_list("sentence", "data")[:SAMPLE])
    sizes = [len(sentence) + len(json.dumps(data)) for sentence, data in rows]
    return ROW_BYTES + (sum(sizes) // len(sizes) if sizes else 0)
