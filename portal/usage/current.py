"""Devices that are allocated now, with their activity by the latest sample and over the last hour.

Activity that cannot be measured is None with the reason, never 0.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from django.db.models import Count, Max, Sum

from agents.contract.codec import decode
from agents.contract.documents import SliceKind
from agents.contract.errors import ContractError
from agents.contract.telemetry import GpuSample, MissingReason, SliceSample
from portal.allocations.models import Allocation, AllocationSample
from portal.allocations.querysets import AllocationQuerySet
from portal.inventory.models import LatestSample

# Agents send a sample every few seconds; an older one says nothing about now.
MAX_SAMPLE_AGE = timedelta(seconds=60)
# A device is idle if it was measured in at least MIN_IDLE_MINUTES of the last hour and no sample
# showed more than MAX_IDLE_PERCENT.
RECENT_PERIOD = timedelta(hours=1)
MIN_IDLE_MINUTES = 10
MAX_IDLE_PERCENT = 5
# As many as a page has room for.
MAX_ROWS = 50


class ActivityGap(StrEnum):
    """Why there is no activity, beside the reasons that agents report (`MissingReason`)."""

    NO_SAMPLE = "no_sample"
    SHARE = "share"


@dataclass(frozen=True, slots=True)
class RecentActivity:
    """The activity of a device in the last hour, by the peak of each measured minute."""

    # How many minutes were measured.
    minutes: int = 0
    peak_percent: int = 0
    # The mean of the minutes' peaks, rounded up: an upper bound of the true mean.
    mean_percent: int = 0


@dataclass(frozen=True, slots=True)
class CurrentAllocation:
    """A live allocation with its device, owner and activity."""

    job: str
    name: str
    project: str
    user: str
    node: str
    gpu: int
    kind: str
    profile: str
    units: int
    since: datetime
    # Percent of the time in which anything ran on the device; None with the reason in `gap`.
    active_percent: int | None
    gap: MissingReason | ActivityGap | None
    duration: timedelta
    recent: RecentActivity

    @property
    def is_idle(self) -> bool:
        return (
            self.recent.minutes >= MIN_IDLE_MINUTES and self.recent.peak_percent <= MAX_IDLE_PERCENT
        )


def recent_utilisation(rows: Iterable[CurrentAllocation]) -> tuple[int, int]:
    """The allocated units that were measured in the last hour, and an upper bound of the percentage
    of them that was in use; (0, 0) if none were measured."""
    measured = [row for row in rows if row.recent.minutes]
    units = sum(row.units for row in measured)
    used = sum(row.units * row.recent.mean_percent for row in measured)
    return units, -(-used // units) if units else 0


def allocated_totals(
    rows: AllocationQuerySet[Allocation], listed: Sequence[CurrentAllocation]
) -> tuple[int, int]:
    """The units and the slices that these rows have allocated. `listed`: what `current_allocations`
    returned for them. One query; none if the list is complete."""
    if len(listed) < MAX_ROWS:
        return sum(row.units for row in listed), len(listed)
    live = rows.live().filter(bound_at__isnull=False).order_by()
    totals = live.aggregate(units=Sum("units"), slices=Count("pk"))
    return totals["units"] or 0, totals["slices"]


def current_allocations(
    rows: AllocationQuerySet[Allocation], now: datetime
) -> list[CurrentAllocation]:
    """The allocations that have run longest, at most MAX_ROWS. Four queries."""
    live = rows.live().filter(bound_at__isnull=False, slice__isnull=False)
    live = live.order_by("bound_at", "id")
    # The database sorts keys alone: full rows are long.
    found = list(_rows(list(live.values_list("pk", flat=True)[:MAX_ROWS])))
    gpus = {row.own_slice.gpu_id for row in found}
    fresh = LatestSample.objects.filter(gpu_id__in=gpus, taken_at__gte=now - MAX_SAMPLE_AGE)
    samples = {row.gpu_id: row.sample for row in fresh}
    recent = _recent([row.pk for row in found], now)
    return [
        _current(row, samples.get(row.own_slice.gpu_id), recent.get(row.pk, RecentActivity()), now)
        for row in found
    ]


def _rows(keys: list[UUID]) -> AllocationQuerySet[Allocation]:
    rows = Allocation.objects.filter(pk__in=keys).order_by("bound_at", "id")
    rows = rows.select_related("slice__gpu__node", "replica__attempt__job", "project", "user")
    rows = rows.defer("slice__gpu__node__desired", "slice__gpu__node__topology")
    return rows.defer("slice__gpu__node__facts", "replica__attempt__job__request")


def _recent(allocations: list[UUID], now: datetime) -> dict[UUID, RecentActivity]:
    rows = AllocationSample.objects.filter(
        allocation__in=allocations, minute__gt=now - RECENT_PERIOD, active_percent__isnull=False
    )
    sums = {
        "minutes": Count("pk"),
        "highest": Max("active_percent"),
        "total": Sum("active_percent"),
    }
    found = rows.order_by().values_list("allocation_id").annotate(**sums)
    return {
        pk: RecentActivity(minutes, highest, -(-total // minutes))
        for pk, minutes, highest, total in found
    }


def _current(
    row: Allocation, stored: object, recent: RecentActivity, now: datetime
) -> CurrentAllocation:
    active, why = measured_activity(row, _sample(stored))
    job, since = row.replica.attempt.job, row.bound_at or now
    return CurrentAllocation(
        job=job.label,
        name=job.name,
        project=row.project.slug,
        user=row.user.username,
        node=row.own_slice.gpu.node.name,
        gpu=row.own_slice.gpu.index,
        kind=row.own_slice.kind,
        profile=row.own_slice.profile,
        units=row.units,
        since=since,
        active_percent=active,
        gap=why,
        duration=max(timedelta(0), now - since),
        recent=recent,
    )


def measured_activity(
    row: Allocation, sample: GpuSample | None
) -> tuple[int | None, MissingReason | ActivityGap | None]:
    """Percent of the time in which anything ran on the device, or why that is not known. The sample
    of a whole GPU says nothing about one MPS share or one MIG slice of it."""
    if row.own_slice.kind == SliceKind.MPS:
        return None, ActivityGap.SHARE
    if sample is None:
        return None, ActivityGap.NO_SAMPLE
    if row.own_slice.kind == SliceKind.GPU:
        if sample.active_percent is None and sample.utilization_percent is not None:
            return sample.utilization_percent, None
        return _number(sample, "active_percent", "utilization_percent")
    mine = (piece for piece in sample.slices if piece.uuid == row.own_slice.device_uuid)
    piece = next(mine, None)
    return (None, ActivityGap.NO_SAMPLE) if piece is None else _number(piece, "active_percent")


def _number(
    sample: GpuSample | SliceSample, name: str, or_else: str = ""
) -> tuple[int | None, MissingReason | None]:
    value: int | None = getattr(sample, name)
    if value is not None:
        return value, None
    return None, sample.missing_reason(or_else or name) or sample.missing_reason(
        name
    ) or MissingReason.DRIVER_ERROR


def _sample(stored: object) -> GpuSample | None:
    """None for a sample that an incompatible version wrote."""
    if stored is None:
        return None
    try:
        return decode(GpuSample, stored)
    except ContractError:
        return None
