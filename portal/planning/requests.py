"""Job rows as the planner's WaitingJob, quickly: ten thousand of them every few seconds.

Columns are read without the stored requests. What the planner needs of a request is kept in this
process by the job's uid: a request never changes.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from math import ceil
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from portal.jobs.models import Job
from scheduler.core.model.snapshot import DeviceRequest, Priority, Topology, WaitingJob
from scheduler.core.model.states import JobStatus
from scheduler.core.request import JobRequest, parse_stored_request

# More than a pass looks at: waiting, running and ended jobs together.
MOST_KEPT = 40_000
# Databases take only so many parameters in one query.
AT_ONCE = 5_000

COLUMNS = (
    "id",
    "uid",
    "name",
    "project__slug",
    "owner__username",
    "priority",
    "queued_at",
    "submitted_at",
    "replica_count",
    "cpu_milli",
    "memory_mib",
    "time_limit_seconds",
    "limit_is_chosen",
    "attained_seconds",
    "preemptible",
    "preempted",
    "bypassed",
    "begin_at",
    "hold_owner",
    "hold_reason",
    "disk_mib",
)


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """What the planner needs of a request beyond the job's columns."""

    device: DeviceRequest
    topology: Topology
    processes: int
    needs: tuple[str, ...]
    tolerates: tuple[str, ...]


_kept: dict[UUID, RequestSpec] = {}


def request_specs(uids: Iterable[UUID]) -> dict[UUID, RequestSpec]:
    """By the job's uid. Asks the database only about jobs that this process has not seen."""
    wanted = list(dict.fromkeys(uids))
    found = {uid: asked for uid in wanted if (asked := _kept.get(uid)) is not None}
    for some in _batches([uid for uid in wanted if uid not in found]):
        for uid, stored in Job.objects.filter(uid__in=some).values_list("uid", "request"):
            found[uid] = _of(parse_stored_request(stored))
    if len(_kept) > MOST_KEPT:
        _kept.clear()
    _kept.update(found)
    return found


def waiting_jobs_from_queryset(rows: QuerySet[Job]) -> tuple[WaitingJob, ...]:
    """Queued jobs as the planner sees them, in the order of `rows`. Three queries at most."""
    found: list[Any] = list(rows.values_list(*COLUMNS))
    asked = request_specs(row[1] for row in found)
    links = Job.after.through.objects.filter(from_job__status=JobStatus.QUEUED)
    after = _unmet(links) if found else {}
    return tuple(
        waiting_job_from_columns(row, asked[row[1]], after.get(row[0], ())) for row in found
    )


def waiting_job_from_row(job: Job) -> WaitingJob:
    """One job as the planner sees it, from the row in hand: read it with its project and owner."""
    return waiting_jobs_from_rows([job])[0]


def waiting_jobs_from_rows(jobs: Sequence[Job]) -> list[WaitingJob]:
    """Rows in hand as the planner would see them, whatever they wait for. Two queries at most."""
    after = _unmet(Job.after.through.objects.filter(from_job__in=[job.pk for job in jobs]))
    asked = request_specs(job.uid for job in jobs)
    found = []
    for job in jobs:
        row = [reduce(getattr, column.split("__"), job) for column in COLUMNS]
        found.append(waiting_job_from_columns(row, asked[job.uid], after.get(job.pk, ())))
    return found


def waiting_job_from_columns(
    row: Sequence[Any], asked: RequestSpec, after: tuple[str, ...] = ()
) -> WaitingJob:
    """`row` has COLUMNS."""
    (pk, _, name, project, user, priority, queued_at, submitted_at, replicas, cpu, memory) = row[
        :11
    ]
    limit, is_chosen, attained, preemptible, preempted, bypassed, begin_at, by, because = row[11:20]
    disk = row[20]
    return WaitingJob(
        id=str(pk),
        name=name,
        project=project,
        user=user,
        priority=Priority(priority),
        queued_at=epoch_seconds(queued_at or submitted_at),
        replicas=replicas,
        device=asked.device,
        cpu_milli=cpu,
        memory_mib=memory,
        topology=asked.topology,
        processes=asked.processes,
        time_limit_seconds=limit,
        limit_is_chosen=is_chosen,
        attained_seconds=attained,
        preemptible=preemptible,
        preempted=preempted,
        bypassed=bypassed,
        begin_at=ceil(begin_at.timestamp()) if begin_at else 0,
        after=after,
        hold_reason=f"{because} ({by})" if by else "",
        needs=asked.needs,
        tolerates=asked.tolerates,
        group=run_group(name),
        disk_mib=disk,
    )


def waiting_job_from_request(
    request: JobRequest, *, id: str, project: str, user: str, queued_at: int
) -> WaitingJob:
    """A request as if it stood in the queue now, with a delay counted from then."""
    asked = _of(request)
    begin_at = queued_at + request.begin_in if request.begin_in else request.begin_at
    return WaitingJob(
        id=id,
        name=request.name,
        project=project,
        user=user,
        priority=Priority(request.priority),
        queued_at=queued_at,
        replicas=request.replicas,
        device=asked.device,
        cpu_milli=request.cpu_milli,
        memory_mib=request.memory_mib,
        topology=asked.topology,
        processes=asked.processes,
        time_limit_seconds=request.time_limit_seconds,
        limit_is_chosen=request.limit_is_chosen,
        preemptible=request.preemptible,
        begin_at=begin_at,
        after=tuple(label.removeprefix("J-") for label in request.after),
        needs=asked.needs,
        tolerates=asked.tolerates,
        group=run_group(request.name),
        disk_mib=request.disk_mib,
    )


def run_group(name: str) -> str:
    """What makes runs of one user alike: the name without its numbers."""
    return re.sub(r"[0-9]+", "#", name)


def epoch_seconds(at: datetime) -> int:
    """Whole seconds since the epoch."""
    return int(at.timestamp())


def _of(request: JobRequest) -> RequestSpec:
    return RequestSpec(
        device=request.device,
        topology=request.topology,
        processes=request.processes,
        needs=request.needs,
        tolerates=request.tolerates,
    )


def _unmet(links: QuerySet[Any]) -> dict[int, tuple[str, ...]]:
    """By job: the jobs that it still waits for."""
    rows = links.exclude(to_job__status=JobStatus.SUCCEEDED).order_by("from_job_id", "to_job_id")
    found: dict[int, list[str]] = defaultdict(list)
    for job_id, after_id in rows.values_list("from_job_id", "to_job_id"):
        found[job_id].append(str(after_id))
    return {job_id: tuple(ids) for job_id, ids in found.items()}


def _batches(uids: list[UUID]) -> Iterable[tuple[UUID, ...]]:
    return (tuple(uids[at : at + AT_ONCE]) for at in range(0, len(uids), AT_ONCE))
