"""Removes logs of ended jobs."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime

from django.db import transaction
from django.db.models import Count, Min, Sum

from portal.job_logs.adoption import adopt_file
from portal.job_logs.storage import stream_name
from portal.jobs.models import Replica
from portal.jobs.querysets import values_of
from portal.retention.limits import BATCH, RetentionLimits, StoredUse
from portal.storage.errors import StoreError
from portal.storage.segments import delete_forgotten, forget_stream
from portal.storage.streams import open_streams
from scheduler.core.model.states import JOB_FINAL

# A task ends in under 45 s; what is left is removed in the next run.
DELETE_SECONDS = 20


def logs_use(limits: RetentionLimits) -> StoredUse:
    """Two queries."""
    kept = Replica.objects.filter(log_removed_at__isnull=True, log_bytes__gt=0)
    total = kept.aggregate(count=Count("pk"), bytes=Sum("log_bytes"))
    ended = kept.filter(attempt__job__status__in=values_of(JOB_FINAL))
    oldest = ended.aggregate(at=Min("attempt__job__finished_at"))["at"]
    return StoredUse(total["count"], total["bytes"] or 0, limits, oldest)


def logs_remove(*, limits: RetentionLimits, now: datetime) -> int:
    """Remove logs that are too old, then the oldest ones while all are too large; at most a batch.
    How many. Raises StoreUnavailable; the next run then removes the bytes that are left."""
    removed = 0
    replicas = {stream_name(replica): replica for replica in _to_remove(limits, now)}
    streams = open_streams({name: replica.log_bytes for name, replica in replicas.items()})
    for name, replica in replicas.items():
        if streams[name].first_gap == 0:
            # A file of an older Tessera is recorded first, so that its bytes are removed, too. If
            # that fails, the log is removed from the pages and its file stays.
            with suppress(StoreError):
                adopt_file(streams[name])
        with transaction.atomic():
            rows = Replica.objects.filter(pk=replica.pk, log_removed_at__isnull=True)
            removed += rows.update(log_removed_at=now)
            forget_stream(name)
    delete_forgotten(BATCH, seconds=DELETE_SECONDS)
    return removed


def _to_remove(limits: RetentionLimits, now: datetime) -> Iterator[Replica]:
    if not limits.days and not limits.mib:
        return
    excess = logs_use(limits).excess_bytes
    cutoff = limits.cutoff(now)
    rows = Replica.objects.filter(
        log_removed_at__isnull=True,
        log_bytes__gt=0,
        attempt__job__status__in=values_of(JOB_FINAL),
        attempt__job__finished_at__isnull=False,
    )
    oldest = rows.select_related("attempt__job").order_by("attempt__job__finished_at", "pk")
    for replica in oldest[:BATCH]:
        ended = replica.attempt.job.finished_at
        is_old = cutoff is not None and ended is not None and ended < cutoff
        if not is_old and excess <= 0:
            return
        excess -= replica.log_bytes
        yield replica
