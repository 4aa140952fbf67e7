"""What is held now, and what sensors say of it: the latest sample of each device and its last hour.

A number that is not measurable is None with why; it is never 0 instead.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from django.db.models import Count, Max, QuerySet, Sum

from agents.contract.codec import decode
from agents.contract.documents import SliceKind
from agents.contract.errors import ContractError
from agents.contract.telemetry import GpuSample, MissingReason, SliceSample
from portal.inventory.models import LatestSample
from portal.jobs.models import Allocation, AllocationSample

# Agents send every few seconds; an older sample says nothing of now.
MAX_SAMPLE_AGE = timedelta(seconds=60)
# A device is idle of which no look of this time, in at least so many minutes, saw more than this.
RECENT_PERIOD = timedelta(hours=1)
MIN_IDLE_MINUTES = 10
MAX_IDLE_PERCENT = 5
# So many are looked at, those that hold longest first.
MAX_ROWS = 50


class ActivityGap(StrEnum):
    """Why there is no number beside those of `agents.contract.telemetry.Why`."""

    NO_SAMPLE = "no_sample"
    SHARE = "share"


@dataclass(frozen=True, slots=True)
class RecentActivity:
    """The last hour of a device: the highest look of each minute in which it was measured. `mean`
    of these, rounded up: at most so much was used."""

    minutes: int = 0
    peak_percent: int = 0
    mean_percent: int = 0


@dataclass(frozen=True, slots=True)
class CurrentAllocation:
    """A live allocation. `active`: percent of the time in which anything ran on it, by its last
    sample; None with `why`."""

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
    """Units held that were measured in the last hour, and how many percent of them were in use at
    most; (0, 0) where nothing was."""
    measured = [row for row in rows if row.recent.minutes]
    units = sum(row.units for row in measured)
    used = sum(row.units * row.recent.mean_percent for row in measured)
    return units, -(-used // units) if units else 0


def allocated_totals(
    rows: QuerySet[Allocation], listed: Sequence[CurrentAllocation]
) -> tuple[int, int]:
    """How many units and how many slices these hold now, of which the `first` are known. One query,
    none where these are all."""
    if len(listed) < MAX_ROWS:
        return sum(row.units for row in listed), len(listed)
    live = rows.live().filter(bound_at__isnull=False).order_by()
    found = live.aggregate(units=Sum("units"), slices=Count("pk"))
    return found["units"] or 0, found["slices"]


def current_allocations(rows: QuerySet[Allocation], now: datetime) -> list[CurrentAllocation]:
    """Those that hold longest, at most MOST. Four queries."""
    live = rows.live().filter(bound_at__isnull=False).order_by("bound_at", "id")
    # Only keys are sorted: what belongs to a row is long.
    found = list(_whole(list(live.values_list("pk", flat=True)[:MAX_ROWS])))
    gpus = {row.slice.gpu_id for row in found}
    fresh = LatestSample.objects.filter(gpu_id__in=gpus, taken_at__gte=now - MAX_SAMPLE_AGE)
    samples = {row.gpu_id: row.sample for row in fresh}
    lately = _lately([row.pk for row in found], now)
    return [
        _holding(row, samples.get(row.slice.gpu_id), lately.get(row.pk, RecentActivity()), now)
        for row in found
    ]


def _whole(keys: list[UUID]) -> QuerySet[Allocation]:
    rows = Allocation.objects.filter(pk__in=keys).order_by("bound_at", "id")
    rows = rows.select_related("slice__gpu__node", "replica__attempt__job", "project", "user")
    rows = rows.defer("slice__gpu__node__desired", "slice__gpu__node__topology")
    return rows.defer("slice__gpu__node__facts", "replica__attempt__job__request")


def _lately(allocations: list[UUID], now: datetime) -> dict[UUID, RecentActivity]:
    rows = AllocationSample.objects.filter(
        allocation__in=allocations, minute__gt=now - RECENT_PERIOD, active_percent__isnull=False
    )
    sums = {
        "minutes": Count("pk"),
        "highest": Max("active_percent"),
        "together": Sum("active_percent"),
    }
    found = rows.order_by().values_list("allocation_id").annotate(**sums)
    return {
        pk: RecentActivity(minutes, highest, -(-together // minutes))
        for pk, minutes, highest, together in found
    }


def _holding(
    row: Allocation, stored: object, lately: RecentActivity, now: datetime
) -> CurrentAllocation:
    active, why = measured_activity(row, _sample(stored))
    job, since = row.replica.attempt.job, row.bound_at or now
    return CurrentAllocation(
        job=job.label,
        name=job.name,
        project=row.project.slug,
        user=row.user.username,
        node=row.slice.gpu.node.name,
        gpu=row.slice.gpu.index,
        kind=row.slice.kind,
        profile=row.slice.profile,
        units=row.units,
        since=since,
        active_percent=active,
        gap=why,
        duration=max(timedelta(0), now - since),
        recent=lately,
    )


def measured_activity(
    row: Allocation, sample: GpuSample | None
) -> tuple[int | None, MissingReason | ActivityGap | None]:
    """Percent of the time in which anything ran on the slice itself, or why that is not known. A
    sample of a GPU says nothing of one MPS share, nor of one MIG slice."""
    if row.slice.kind == SliceKind.MPS:
        return None, ActivityGap.SHARE
    if sample is None:
        return None, ActivityGap.NO_SAMPLE
    if row.slice.kind == SliceKind.GPU:
        if sample.active_percent is None and sample.utilization_percent is not None:
            return sample.utilization_percent, None
        return _number(sample, "active_percent", "utilization_percent")
    mine = (piece for piece in sample.slices if piece.uuid == row.slice.device_uuid)
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
    """None for one that was written by another version and means something else now."""
    if stored is None:
        return None
    try:
        return decode(GpuSample, stored)
    except ContractError:
        return None
