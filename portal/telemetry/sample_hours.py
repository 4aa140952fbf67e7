"""Old samples of the devices of jobs: minutes become hours, and hours go after a year."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Count, Max, QuerySet

from portal.allocations.models import AllocationHour, AllocationSample
from portal.telemetry.job_samples import MEASURED_COLUMNS, RETENTION

HOUR = timedelta(hours=1)
HOURS_RETENTION = timedelta(days=400)
# Old hours that are deleted at a time.
DELETE_BATCH = 5_000


def samples_fold(*, now: datetime) -> int:
    """The oldest hour of minutes older than RETENTION becomes a row for each device; and a batch of
    hours older than HOURS_RETENTION is deleted. Returns how many minutes went. For one worker at a
    time."""
    _hours_delete(now - HOURS_RETENTION)
    cutoff = _whole_hour(now - RETENTION)
    old = AllocationSample.objects.filter(minute__lt=cutoff).order_by("minute")
    oldest = old.values_list("minute", flat=True).first()
    if oldest is None:
        return 0
    hour = _whole_hour(oldest)
    with transaction.atomic():
        rows = AllocationSample.objects.filter(minute__gte=hour, minute__lt=hour + HOUR)
        highest = [Max(name) for name in MEASURED_COLUMNS]
        grouped: QuerySet[Any, Any] = rows.order_by().values_list("allocation")
        grouped = grouped.annotate(Count("memory_used_mib"), Max("id"), *highest)
        groups = [group for group in grouped if _is_measured(group[3:])]
        lasts = AllocationSample.objects.order_by().filter(pk__in=[group[2] for group in groups])
        why = dict(lasts.values_list("pk", "why"))
        # A row that is there already was made of the same minutes.
        AllocationHour.objects.bulk_create(
            [
                AllocationHour(
                    allocation_id=key,
                    hour=hour,
                    minutes=minutes,
                    why=why.get(last, {}),
                    **dict(zip(MEASURED_COLUMNS, values, strict=True)),
                )
                for key, minutes, last, *values in groups
            ],
            ignore_conflicts=True,
            batch_size=1_000,
        )
        removed, _ = rows.delete()
    return removed


def _is_measured(values: Iterable[int | None]) -> bool:
    """Of an MPS share there is nothing to keep."""
    return any(value is not None for value in values)


def _hours_delete(before: datetime) -> None:
    old = AllocationHour.objects.filter(hour__lt=before).order_by("hour")
    if keys := list(old.values_list("pk", flat=True)[:DELETE_BATCH]):
        AllocationHour.objects.filter(pk__in=keys).delete()


def _whole_hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
