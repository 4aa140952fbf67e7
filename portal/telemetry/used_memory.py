"""How much of its GPU memory an ended attempt used, where that was measured all along."""

from dataclasses import dataclass
from datetime import timedelta
from math import floor

from django.db.models import Count, Max, Q

from portal.allocations.models import Allocation
from portal.jobs.models import Attempt

# Shorter runs may have ended before they used what they would.
SHORTEST_RUN = timedelta(minutes=5)
# Of the minutes of a run: one without a sample may have had the peak.
MEASURED_PART = 0.9
# The samples of a larger gang are too many to be read for a sentence.
MAX_DEVICES = 16


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
    hide where nothing was measured. One query; none for a short run or a large gang."""
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
        .values_list("used", "total", "units", "minutes")[: MAX_DEVICES + 1]
    )
    devices = list(rows)
    is_measured = all(used and total and minutes >= needed for used, total, _, minutes in devices)
    if not is_measured or not 0 < len(devices) <= MAX_DEVICES:
        return None
    used, total, units, _minutes = max(devices)
    return UsedMemory(used, total, units)
