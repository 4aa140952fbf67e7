"""Live allocations, and the jobs that have them, as the planner's RunningJob."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from agents.contract.documents import SliceKind
from portal.allocations.models import Allocation
from portal.database.intervals import SECOND, ThisSecond
from portal.database.kept_queries import KeptSelect, ListOf
from portal.inventory.models import Node
from portal.jobs.models import Job
from portal.planning.requests import (
    SELECTED,
    RequestSpec,
    epoch_seconds,
    request_specs,
    waiting_job_from_columns,
)
from scheduler.core.model.decisions import DevicePlacement, ReplicaPlacement
from scheduler.core.model.snapshot import RunningJob
from scheduler.core.model.states import JobStatus
from scheduler.core.placement.joined_replicas import separate_replicas


@dataclass(frozen=True, slots=True)
class LiveAllocation:
    """A live allocation."""

    id: UUID
    job: int
    attempt: int
    rank: int
    joined: int
    """How many of the job's replicas its container runs."""
    node: UUID
    gpu_node: UUID
    """The node of its GPU: the same."""
    place: DevicePlacement
    project: str
    user: str
    cpu_milli: int
    memory_mib: int
    bound_at: datetime | None

    def seconds(self, now: datetime) -> int:
        """Since it was bound."""
        return max(0, (now - self.bound_at) // SECOND) if self.bound_at else 0


def live_allocations(nodes: Collection[UUID] | None = None) -> list[LiveAllocation]:
    """Every live allocation of a slice, or those on GPUs of these nodes. One query."""
    rows: list[tuple[Any, ...]] = _LIVE.rows() if nodes is None else _LIVE_ON.rows(list(nodes))
    return [_live_allocation(row) for row in rows]


def _live() -> QuerySet[Allocation, tuple[Any, ...]]:
    allocations = Allocation.objects.live().filter(slice__isnull=False)
    return allocations.order_by().values_list(
        "id",
        "replica__attempt__job_id",
        "replica__attempt_id",
        "replica__rank",
        "replica__attempt__joined_replicas",
        "replica__node_id",
        "slice__gpu__node_id",
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


_LIVE = KeptSelect(_live)
_LIVE_ON = KeptSelect(
    lambda nodes: _live().filter(slice__gpu__node__pk__in=nodes), ListOf(Node._meta.pk)
)


def _live_allocation(row: tuple[Any, ...]) -> LiveAllocation:
    pk, job, attempt, rank, joined, node, gpu_node, *rest = row
    project, user, cpu, memory, bound_at, units, *device = rest
    slice_id, gpu, kind, profile, start, size, mib, threads = device
    place = DevicePlacement(
        gpu=str(gpu),
        kind=SliceKind(kind),
        profile=profile,
        start=start,
        size=size,
        units=units,
        memory_mib=mib,
        slice=str(slice_id),
        threads=threads,
    )
    return LiveAllocation(
        *(pk, job, attempt, rank, joined, node, gpu_node, place),
        *(project, user, cpu, memory, bound_at),
    )


def running_jobs(live: Iterable[LiveAllocation], now: datetime) -> tuple[RunningJob, ...]:
    """The jobs that have devices, by id. `started_at`: when the time limit began to count; `now`
    while the job is still preparing."""
    places: dict[int, list[LiveAllocation]] = defaultdict(list)
    for row in live:
        places[row.job].append(row)
    rows: list[tuple[Any, ...]] = _ALLOCATED.rows()
    specs = request_specs(row[1] for row in rows)
    kept = [_kept_or_made(row, specs[row[1]], places[row[0]], epoch_seconds(now)) for row in rows]
    _kept.clear()
    _kept.update((row[0], entry) for row, entry in zip(rows, kept, strict=True))
    return tuple(entry.running for entry in kept)


_ALLOCATED = KeptSelect(
    lambda: (
        Job.objects.allocated()
        .order_by("id")
        .values_list(*SELECTED, "status", ThisSecond("started_at"))
    )
)


@dataclass(frozen=True, slots=True)
class KeptJob:
    """What a running job was made of, and the job."""

    row: Sequence[Any]
    live: list[LiveAllocation]
    running: RunningJob


# By the job's id: those of the last call.
_kept: dict[int, KeptJob] = {}


def _kept_or_made(
    row: Sequence[Any], spec: RequestSpec, live: list[LiveAllocation], now: int
) -> KeptJob:
    kept = _kept.get(row[0])
    *_, status, started_at = row
    if kept and started_at is not None and kept.row == row and kept.live == live:
        return kept
    job, replicas = waiting_job_from_columns(row[:-2], spec), _replicas(live)
    if job.sizes and replicas:
        job = replace(job, replicas=len(replicas))
    running = RunningJob(
        job=job,
        replicas=replicas,
        started_at=now if started_at is None else started_at,
        stopping=status == JobStatus.STOPPING,
    )
    return KeptJob(row, live, running)


def _replicas(live: list[LiveAllocation]) -> tuple[ReplicaPlacement, ...]:
    """Those of the last attempt: an earlier one may still be releasing its devices."""
    last = max((row.attempt for row in live), default=0)
    by_rank: dict[int, list[LiveAllocation]] = defaultdict(list)
    for row in sorted(live, key=attrgetter("id")) if len(live) > 1 else live:
        if row.attempt == last:
            by_rank[row.rank].append(row)
    return tuple(
        replica
        for rank, rows in sorted(by_rank.items())
        for replica in separate_replicas(
            ReplicaPlacement(rank, str(rows[0].node), tuple(row.place for row in rows)),
            rows[0].joined,
        )
    )
