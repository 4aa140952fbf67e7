"""Sensor samples of the devices of jobs: one row for each device and minute, kept for RETENTION and
then as hours.

Whole GPUs and MIG slices are measured. The activity of one MPS share cannot be: its row says so.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Avg, Count, Sum

from agents.contract.telemetry import GpuSample, MissingReason, SliceSample
from portal.allocations.models import Allocation, AllocationSample
from portal.inventory.models import Node

RETENTION = timedelta(days=30)
MEASURED_COLUMNS = (
    "active_percent",
    "memory_used_mib",
    "memory_total_mib",
    "temperature_c",
    "power_mw",
)
# Of an MPS share, only the whole GPU can be measured.
SHARED_REASON = "shared"


@dataclass(frozen=True, slots=True)
class Measurement:
    """The values of one device by column, and the reason for each missing one."""

    numbers: Mapping[str, int | None]
    why: Mapping[str, str]


def samples_record(node: Node, samples: Mapping[str, GpuSample], taken_at: datetime) -> None:
    """Store the peak of each minute for the devices that are allocated on `node`."""
    held = (
        Allocation.objects.live()
        .filter(bound_at__isnull=False, slice__gpu__node=node)
        .select_related("slice__gpu")
    )
    measured = {
        allocation.pk: found
        for allocation in held
        if (found := _measured(allocation, samples.get(allocation.own_slice.gpu.uuid)))
    }
    if not measured:
        return
    minute = taken_at.replace(second=0, microsecond=0)
    rows = AllocationSample.objects.filter(allocation__in=measured, minute=minute)
    before = {row.allocation_id: row for row in rows}
    AllocationSample.objects.bulk_create(
        [_row(pk, minute, found, before.get(pk)) for pk, found in measured.items()],
        update_conflicts=True,
        unique_fields=["allocation", "minute"],
        update_fields=[*MEASURED_COLUMNS, "why"],
    )


@dataclass(frozen=True, slots=True)
class JobMinute:
    """What all devices of a job did in one minute; None where it was not measured."""

    minute: datetime
    active_percent: int | None
    """The mean over its devices of the highest sample of each."""
    memory_used_mib: int | None
    memory_total_mib: int | None
    devices: int
    """How many devices have reported."""


def recent_minutes(jobs: Iterable[int], since: datetime) -> dict[int, list[JobMinute]]:
    """The minutes from `since` on of these jobs, by id, the oldest first. One query, summed in the
    database: a gang has thousands of samples an hour."""
    job = "allocation__replica__attempt__job_id"
    rows = (
        AllocationSample.objects.filter(**{f"{job}__in": list(jobs)}, minute__gte=since)
        .order_by("minute")
        .values_list(job, "minute")
        .annotate(
            Avg("active_percent"),
            Sum("memory_used_mib"),
            Sum("memory_total_mib"),
            Count("id"),
        )
    )
    found: dict[int, list[JobMinute]] = {}
    for pk, minute, active, used, total, devices in rows:
        percent = None if active is None else round(active)
        found.setdefault(pk, []).append(JobMinute(minute, percent, used, total, devices))
    return found


@dataclass(frozen=True, slots=True)
class DeviceActivity:
    """What one device did over some minutes."""

    percent: float
    """The mean of the highest sample of each minute."""
    minutes: int
    """How many minutes were measured."""


def device_activity(attempt: int, since: datetime, until: datetime) -> dict[Any, DeviceActivity]:
    """Of each measured device of this attempt, by allocation. `attempt`: its key. One query,
    averaged in the database."""
    rows = AllocationSample.objects.filter(
        allocation__replica__attempt=attempt,
        minute__gte=since,
        minute__lt=until,
        active_percent__isnull=False,
    ).order_by("allocation")
    means = rows.values_list("allocation").annotate(Avg("active_percent"), Count("id"))
    return {pk: DeviceActivity(mean, minutes) for pk, mean, minutes in means}


def _measured(allocation: Allocation, sample: GpuSample | None) -> Measurement | None:
    if sample is None:
        return None
    device = allocation.own_slice
    if device.kind == "mps":
        return Measurement({}, dict.fromkeys(MEASURED_COLUMNS, SHARED_REASON))
    if device.kind == "mig":
        pieces: Iterable[SliceSample] = sample.slices
        piece = next((p for p in pieces if p.uuid == device.device_uuid), None)
        return _of(piece, "active_percent") if piece else None
    return _of(sample, "utilization_percent")


def _of(sample: GpuSample | SliceSample, activity: str) -> Measurement:
    fields = {"active_percent": activity} | {name: name for name in MEASURED_COLUMNS[1:]}
    numbers = {column: getattr(sample, name, None) for column, name in fields.items()}
    # Temperature and power belong to the whole GPU: a slice has no such attributes.
    why = {
        column: str(sample.missing_reason(name) or MissingReason.DRIVER_ERROR)
        for column, name in fields.items()
        if hasattr(sample, name) and numbers[column] is None
    }
    return Measurement(numbers, why)


def _row(
    allocation: Any, minute: datetime, found: Measurement, before: AllocationSample | None
) -> AllocationSample:
    highest = {}
    for name in MEASURED_COLUMNS:
        both = [getattr(before, name, None), found.numbers.get(name)]
        highest[name] = max((n for n in both if n is not None), default=None)
    why = {name: text for name, text in found.why.items() if highest[name] is None}
    return AllocationSample(allocation_id=allocation, minute=minute, why=why, **highest)
