"""Devices that are allocated now, with their activity by the latest sample and over the last hour.

Activity that cannot be measured is None with the reason, never 0.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
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


class HeldRow(NamedTuple):
    """The columns of a live allocation, in the order of COLUMNS."""

    id: UUID
    bound_at: datetime
    units: int
    project: str
    user: str
    job_id: int
    job_name: str
    node: str
    gpu_id: UUID
    gpu: int
    kind: str
    profile: str
    device_uuid: str


# Rows of models would be 120 columns wide.
COLUMNS = (
    "pk",
    "bound_at",
    "units",
    "project__slug",
    "user__username",
    "replica__attempt__job_id",
    "replica__attempt__job__name",
    "slice__gpu__node__name",
    "slice__gpu_id",
    "slice__gpu__index",
    "slice__kind",
    "slice__profile",
    "slice__device_uuid",
)


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
    # The database sorts keys alone, before it joins what a page has room for.
    keys = list(live.values_list("pk", flat=True)[:MAX_ROWS])
    rows = Allocation.objects.filter(pk__in=keys).order_by("bound_at", "id")
    found = [HeldRow(*row) for row in rows.values_list(*COLUMNS)]
    gpus = {row.gpu_id for row in found}
    fresh = LatestSample.objects.filter(gpu_id__in=gpus, taken_at__gte=now - MAX_SAMPLE_AGE)
    samples = dict(fresh.values_list("gpu_id", "sample"))
    recent = _recent([row.id for row in found], now)
    return [
        _current(row, samples.get(row.gpu_id), recent.get(row.id, RecentActivity()), now)
        for row in found
    ]


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
    row: HeldRow, stored: object, recent: RecentActivity, now: datetime
) -> CurrentAllocation:
    active, why = measured_activity(row, _sample(stored))
    return CurrentAllocation(
        job=f"J-{row.job_id}",
        name=row.job_name,
        project=row.project,
        user=row.user,
        node=row.node,
        gpu=row.gpu,
        kind=row.kind,
        profile=row.profile,
        units=row.units,
        since=row.bound_at,
        active_percent=active,
        gap=why,
        duration=max(timedelta(0), now - row.bound_at),
        recent=recent,
    )


def measured_activity(
    row: HeldRow, sample: GpuSample | None
) -> tuple[int | None, MissingReason | ActivityGap | None]:
    """Percent of the time in which anything ran on the device, or why that is not known. The sample
    of a whole GPU says nothing about one MPS share or one MIG slice of it."""
    if row.kind == SliceKind.MPS:
        return None, ActivityGap.SHARE
    if sample is None:
        return None, ActivityGap.NO_SAMPLE
    if row.kind == SliceKind.GPU:
        if sample.active_percent is None and sample.utilization_percent is not None:
            return sample.utilization_percent, None
        return _number(sample, "active_percent", "utilization_percent")
    mine = (piece for piece in sample.slices if piece.uuid == row.device_uuid)
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
