"""What devices of a job did over its whole life, in few points: minutes of a short run, hours or
days of a long one. Each is the highest value of its time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import F, FloatField, IntegerField, Max, QuerySet
from django.db.models.functions import Cast, ExtractMinute, Floor, TruncDay, TruncHour
from django.utils import timezone

from portal.allocations.models import Allocation, AllocationHour, AllocationSample
from portal.telemetry.job_samples import MEASURED_COLUMNS, RETENTION

MINUTE, TEN_MINUTES, HOUR, DAY = 1, 10, 60, 1_440
# The longest run that has points so far apart: at most 400 points, of hours 960.
LONGEST = (
    (MINUTE, timedelta(hours=6)),
    (TEN_MINUTES, timedelta(hours=60)),
    (HOUR, timedelta(days=40)),
)


@dataclass(frozen=True, slots=True)
class DevicePoint:
    """The highest values of a device from `minute` on; None where nothing was measured."""

    minute: datetime
    active_percent: int | None
    memory_used_mib: int | None
    memory_total_mib: int | None
    temperature_c: int | None
    power_mw: int | None
    why: Mapping[str, str]
    """By column: why it was not measured."""


@dataclass(frozen=True, slots=True)
class DeviceHistory:
    """Of some devices."""

    points: Mapping[Any, Sequence[DevicePoint]]
    """By allocation, the oldest first; without those that were not measured."""
    minutes_each: int
    """How many minutes a point stands for: 1, 10, 60 or 1,440. One that is older than a month
    stands for 60 at least, also beside newer ones."""


def device_history(allocations: Iterable[Allocation]) -> DeviceHistory:
    """The number of points of each is bounded, however long it ran. Three queries, two for a run of
    minutes; two more where it began over a month ago."""
    held = list(allocations)
    begins = [row.bound_at or row.reserved_at for row in held]
    if not held:
        return DeviceHistory({}, MINUTE)
    now = timezone.now()
    ends = [row.released_at or now for row in held]
    each = _minutes_each(max(ends) - min(begins))
    keys = [row.pk for row in held]
    found: dict[Any, list[DevicePoint]] = {}
    if min(begins) < now - RETENTION:
        hours = AllocationHour.objects.filter(allocation__in=keys).annotate(at=F("hour"))
        for key, point in _points(hours, max(each, HOUR)):
            found.setdefault(key, []).append(point)
    minutes = AllocationSample.objects.filter(allocation__in=keys).annotate(at=F("minute"))
    newer = _points(minutes, each)
    if found and not newer:
        each = max(each, HOUR)
    for key, point in newer:
        before = found.setdefault(key, [])
        # The day in which hours end and minutes begin.
        if before and before[-1].minute == point.minute:
            point = _higher(before.pop(), point)
        before.append(point)
    return DeviceHistory(found, each)


def _minutes_each(length: timedelta) -> int:
    return next((each for each, longest in LONGEST if length <= longest), DAY)


def _points(rows: QuerySet[Any], each: int) -> list[tuple[Any, DevicePoint]]:
    """With the key of the allocation, the oldest first; summed up in the database."""
    if each == MINUTE:
        columns = ("allocation_id", "at", *MEASURED_COLUMNS, "why")
        return [
            (key, DevicePoint(at, *values))
            for key, at, *values in rows.order_by("at").values_list(*columns)
        ]
    names = [f"highest_{name}" for name in MEASURED_COLUMNS]
    grouped = (
        rows.annotate(**_time(each))
        .order_by("begin", "part")
        .values("allocation_id", "begin", "part")
        .annotate(
            last=Max("id"),
            **{name: Max(column) for name, column in zip(names, MEASURED_COLUMNS, strict=True)},
        )
        .values_list("allocation_id", "begin", "part", "last", *names)
    )
    groups = list(grouped)
    lasts = rows.model.objects.order_by().filter(pk__in=[group[3] for group in groups])
    why = dict(lasts.values_list("pk", "why"))
    return [
        (key, _point(begin + part * timedelta(minutes=TEN_MINUTES), values, why.get(last, {})))
        for key, begin, part, last, *values in groups
    ]


def _time(each: int) -> dict[str, Any]:
    """The columns to group by: an hour or a day, and which ten minutes of it."""
    if each == DAY:
        return {"begin": TruncDay("at", tzinfo=UTC), "part": F("id") * 0}
    begin = TruncHour("at", tzinfo=UTC)
    if each == HOUR:
        return {"begin": begin, "part": F("id") * 0}
    minutes = Cast(ExtractMinute("at", tzinfo=UTC), FloatField())
    return {"begin": begin, "part": Cast(Floor(minutes / TEN_MINUTES), IntegerField())}


def _higher(one: DevicePoint, other: DevicePoint) -> DevicePoint:
    highest = []
    for name in MEASURED_COLUMNS:
        values = [v for v in (getattr(one, name), getattr(other, name)) if v is not None]
        highest.append(max(values, default=None))
    return _point(one.minute, highest, {**one.why, **other.why})


def _point(minute: datetime, values: Iterable[Any], why: Mapping[str, str]) -> DevicePoint:
    """`values`: by MEASURED_COLUMNS; `why`: of one minute, which may lack what others have."""
    found = dict(zip(MEASURED_COLUMNS, values, strict=True))
    why = {name: text for name, text in why.items() if found.get(name) is None}
    return DevicePoint(minute=minute, why=why, **found)
