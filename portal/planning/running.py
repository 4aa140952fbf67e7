"""Live allocations, and the jobs that have them, as the planner's RunningJob. Two queries."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from agents.contract.documents import SliceKind
from portal.allocations.models import Allocation
from portal.database.intervals import SECOND
from portal.jobs.models import Job
from portal.planning.requests import COLUMNS, epoch_seconds, request_specs, waiting_job_from_columns
from scheduler.core.model.decisions import DevicePlacement, ReplicaPlacement
from scheduler.core.model.snapshot import RunningJob
from scheduler.core.model.states import JobStatus


@dataclass(frozen=True, slots=True)
class LiveAllocation:
    """A live allocation."""

    job: int
    attempt: int
    rank: int
    node: UUID
    place: DevicePlacement
    project: str
    user: str
    cpu_milli: int
    memory_mib: int
    seconds: int
    """Since it was bound."""


def live_allocations(now: datetime) -> list[LiveAllocation]:
    """Every live allocation of a slice, by job, attempt and rank."""
    rows = (
        Allocation.objects.live()
        .filter(slice__isnull=False)
        .order_by("replica__attempt__job_id", "replica__attempt_id", "replica__rank", "id")
        .values_list(
            "replica__attempt__job_id",
            "replica__attempt_id",
            "replica__rank",
            "replica__node_id",
            "project__slug",
            "user__username",
            "cpu_milli",
            "memory_mib",
            "bound_at",
            "units",
            "slice_id",
            "slice__gpu_id",
            "slice__kind",
            "slice__profile",
            "slice__start",
            "slice__size",
            "slice__memory_mib",
            "slice__threads",
        )
    )
    return [_live_allocation(row, now) for row in rows]


def _live_allocation(row: tuple[object, ...], now: datetime) -> LiveAllocation:
    job, attempt, rank, node, project, user, cpu, memory, bound_at, units, *device = row
    slice_id, gpu, kind, profile, start, size, mib, threads = device
    place = DevicePlacement(
        gpu=str(gpu),
        kind=SliceKind(str(kind)),
        profile=profile,  # type: ignore[arg-type]  # columns of the query above
        start=start,  # type: ignore[arg-type]
        size=size,  # type: ignore[arg-type]
        units=units,  # type: ignore[arg-type]
        memory_mib=mib,  # type: ignore[arg-type]
        slice=str(slice_id),
        threads=threads,  # type: ignore[arg-type]
    )
    used = max(0, (now - bound_at) // SECOND) if isinstance(bound_at, datetime) else 0
    return LiveAllocation(job, attempt, rank, node, place, project, user, cpu, memory, used)  # type: ignore[arg-type]


def running_jobs(live: Iterable[LiveAllocation], now: datetime) -> tuple[RunningJob, ...]:
    """The jobs that have devices, by id. `started_at`: when the time limit began to count; `now`
    while the job is still preparing."""
    places: dict[int, list[LiveAllocation]] = defaultdict(list)
    for row in live:
        places[row.job].append(row)
    allocated = Job.objects.allocated().order_by("id")
    rows = list(allocated.values_list(*COLUMNS, "status", "started_at"))
    specs = request_specs(row[1] for row in rows)
    return tuple(
        RunningJob(
            job=waiting_job_from_columns(row, specs[row[1]]),
            replicas=_replicas(places[row[0]]),
            started_at=epoch_seconds(row[-1] or now),
            stopping=row[-2] == JobStatus.STOPPING,
        )
        for row in rows
    )


def _replicas(live: list[LiveAllocation]) -> tuple[ReplicaPlacement, ...]:
    """Those of the last attempt: an earlier one may still be releasing its devices."""
    last = max((row.attempt for row in live), default=0)
    by_rank: dict[int, list[LiveAllocation]] = defaultdict(list)
    for row in live:
        if row.attempt == last:
            by_rank[row.rank].append(row)
    return tuple(
        ReplicaPlacement(rank, str(rows[0].node), tuple(row.place for row in rows))
        for rank, rows in sorted(by_rank.items())
    )
