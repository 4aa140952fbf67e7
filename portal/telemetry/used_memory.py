"""How much of its GPU memory an ended attempt used, where that was measured all along."""

from dataclasses import dataclass
from datetime import timedelta
from math import floor
from typing import Any, TypeAlias

from django.db.models import Count, Max, Q, Sum
from django.utils import timezone

from portal.allocations.models import Allocation, AllocationHour
from portal.jobs.models import Attempt
from portal.telemetry.job_samples import RETENTION

# Shorter runs may have ended before they used what they would.
SHORTEST_RUN = timedelta(minutes=5)
# Of the minutes of a run: one without a sample may have had the peak.
MEASURED_PART = 0.9
# The samples of a larger gang are too many to be read for a sentence.
MAX_DEVICES = 16
# With the key of the allocation first, and without.
_Row: TypeAlias = tuple[Any, int | None, int | None, int, int]
_Device: TypeAlias = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class UsedMemory:
    """Of the device of the attempt that used most."""

    used_mib: int
    """The highest sample."""
    total_mib: int
    units: int
    """What the device counts of a quota."""


def used_memory(attempt: Attempt) -> UsedMemory | None:
    """None unless each of its devices was measured in nearly each minute of the run: a peak may
    hide where nothing was measured. One query, two where minutes of it have become hours; none for
    a short run or a large gang."""
    replicas = list(attempt.replicas.all())
    runs = [r.finished_at - r.started_at for r in replicas if r.started_at and r.finished_at]
    is_told = replicas and len(runs) == len(replicas) <= MAX_DEVICES
    if not is_told or min(runs) < SHORTEST_RUN:
        return None
    needed = floor(MEASURED_PART * (max(runs) / timedelta(minutes=1)))
    rows = (
        Allocation.objects.filter(replica__attempt=attempt.pk, slice__isnull=False)
        .annotate(
            used=Max("samples__memory_used_mib"),
            total=Max("samples__memory_total_mib"),
            minutes=Count("samples", filter=Q(samples__memory_used_mib__isnull=False)),
        )
        .values_list("pk", "used", "total", "units", "minutes")[: MAX_DEVICES + 1]
    )
    began_at = min(r.started_at for r in replicas if r.started_at)
    devices = _devices(list(rows), has_hours=began_at < timezone.now() - RETENTION)
    is_measured = all(used and total and minutes >= needed for used, total, _, minutes in devices)
    if not is_measured or not 0 < len(devices) <= MAX_DEVICES:
        return None
    used, total, units, _minutes = max(devices)
    return UsedMemory(used, total, units)


def _devices(rows: list[_Row], *, has_hours: bool) -> list[_Device]:
    """Used and total memory, units and measured minutes of each."""
    if not has_hours:
        return [(used or 0, total or 0, units, minutes) for _, used, total, units, minutes in rows]
    hours = AllocationHour.objects.filter(allocation__in=[row[0] for row in rows]).order_by()
    found = hours.values_list("allocation").annotate(
        Max("memory_used_mib"), Max("memory_total_mib"), Sum("minutes")
    )
    older = {key: figures for key, *figures in found}
    devices = []
    for key, used, total, units, minutes in rows:
        before = older.get(key, (None, None, 0))
        most = max(used or 0, before[0] or 0), max(total or 0, before[1] or 0)
        devices.append((*most, units, minutes + before[2]))
    return devices
