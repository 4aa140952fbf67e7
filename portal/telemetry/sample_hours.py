"""Old samples of the devices of jobs: minutes become hours, and hours go after a year."""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Count, Max

from portal.allocations.models import AllocationHour, AllocationSample
from portal.telemetry.job_samples import MEASURED_COLUMNS, RETENTION

HOUR = timedelta(hours=1)
HOURS_KEPT = timedelta(days=400)
# Old hours that are deleted at a time.
DELETE_BATCH = 5_000


def samples_fold(*, now: datetime) -> int:
    """The oldest hour of minutes older than RETENTION becomes a row for each device; and a batch of
    hours older than HOURS_KEPT is deleted. Returns how many minutes went. For one worker at a time.
    """
    _hours_delete(now - HOURS_KEPT)
    cutoff = _whole_hour(now - RETENTION)
    old = AllocationSample.objects.filter(minute__lt=cutoff).order_by("minute")
    oldest = old.values_list("minute", flat=True).first()
    if oldest is None:
        return 0
    hour = _whole_hour(oldest)
    with transaction.atomic():
        rows = AllocationSample.objects.filter(minute__gte=hour, minute__lt=hour + HOUR)
        highest = {name: Max(name) for name in MEASURED_COLUMNS}
        found = (
            rows.order_by()
            .values("allocation")
            .annotate(
                **{f"highest_{name}": value for name, value in highest.items()},
                minutes=Count("memory_used_mib"),
                last=Max("id"),
            )
        )
        groups = [group for group in found if _is_measured(group)]
        lasts = AllocationSample.objects.filter(pk__in=[group["last"] for group in groups])
        why = dict(lasts.values_list("pk", "why"))
        # A row that is there already was made of the same minutes.
        AllocationHour.objects.bulk_create(
            [
                AllocationHour(
                    allocation_id=group["allocation"],
                    hour=hour,
                    minutes=group["minutes"],
                    why=why.get(group["last"], {}),
                    **{name: group[f"highest_{name}"] for name in MEASURED_COLUMNS},
                )
                for group in groups
            ],
            ignore_conflicts=True,
            batch_size=1_000,
        )
        removed, _ = rows.delete()
    return removed


def _is_measured(group: dict[str, int | None]) -> bool:
    """Of an MPS share there is nothing to keep."""
    return any(group[f"highest_{name}"] is not None for name in MEASURED_COLUMNS)


def _hours_delete(before: datetime) -> None:
    old = AllocationHour.objects.filter(hour__lt=before).order_by("hour")
    if keys := list(old.values_list("pk", flat=True)[:DELETE_BATCH]):
        AllocationHour.objects.filter(pk__in=keys).delete()


def _whole_hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
