"""Job rows and requests as the planner's WaitingJob: ten thousand of them every few seconds.

Columns are read without the stored requests. What the planner needs of a request is cached in this
process by the job's uid: a submitted request never changes. So is the whole job, until a column
does.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import datetime
from functools import reduce
from math import ceil
from typing import Any
from uuid import UUID

from django.db.models import F, QuerySet

from agents.combinations.commands import CommandTraits, command_traits
from agents.contract.documents import CollectiveBackend
from agents.contract.egress import EgressPolicy
from agents.contract.git_source import is_git_source
from agents.contract.image_needs import ImageNeeds
from agents.contract.launcher_names import LauncherName
from agents.contract.rank_network import RdmaUse
from portal.database.intervals import NextSecond, ThisSecond
from portal.database.kept_queries import KeptSelect, ListOf
from portal.images.needs_cache import needs_of
from portal.job_secrets.selectors import known_secrets
from portal.jobs.models import Dependency, Job
from portal.jobs.querysets import DependencyQuerySet
from portal.recent_values import RecentValues
from portal.volumes.selectors import access_of_jobs, access_of_request
from scheduler.core.model.snapshot import DeviceRequest, Priority, Topology, WaitingJob
from scheduler.core.model.states import JobStatus
from scheduler.core.request import JobRequest, parse_stored_request
from scheduler.core.request.conditions import parse_dependency
from scheduler.core.request.replica_range import replica_sizes
from scheduler.core.request.secrets import secret_names

# More than a pass reads: waiting, running and ended jobs together.
MAX_KEPT_REQUESTS = 40_000
MAX_LISTED_MEMBERS = 4
# Databases limit the number of parameters in a query.
BATCH_SIZE = 5_000

# As whole seconds since 1970: the database works them out in a tenth of the time in which Python
# reads a moment.
SECONDS = {"queued_at": ThisSecond, "submitted_at": ThisSecond, "begin_at": NextSecond}
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
    "array_id",
    "array_cap",
    "project__egress",
)
SELECTED = tuple(SECONDS[column](column) if column in SECONDS else F(column) for column in COLUMNS)
"""For `values_list`: what `waiting_job_from_columns` takes."""


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """What the planner needs of a request beyond the job's columns."""

    device: DeviceRequest
    topology: Topology
    processes: int
    needs: tuple[str, ...]
    tolerates: tuple[str, ...]
    launcher: LauncherName
    secrets: tuple[str, ...]
    backend: CollectiveBackend
    command: CommandTraits
    needs_rdma: bool = False
    git_host: str = ""
    image: str = ""
    volume_access: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()


# The fields of a stored request that its spec is made of; and what is recognised in its command.
SPEC_FIELDS = (
    "device",
    "topology",
    "processes",
    "needs",
    "tolerates",
    "launcher",
    "secrets",
    "backend",
    "rdma",
    "image",
)
# By the job's uid.
_specs: RecentValues[UUID, RequestSpec] = RecentValues(MAX_KEPT_REQUESTS)
# By the values of those fields.
_by_fields: RecentValues[str, RequestSpec] = RecentValues(MAX_KEPT_REQUESTS)
# By the job's id: the columns and unmet jobs that the value was made of, beside what is in it.
_kept: RecentValues[int, tuple[Sequence[Any], tuple[str, ...], WaitingJob]] = RecentValues(
    MAX_KEPT_REQUESTS
)


def request_specs(uids: Iterable[UUID]) -> dict[UUID, RequestSpec]:
    """By the job's uid. Reads only the requests that this process has not kept."""
    wanted = list(dict.fromkeys(uids))
    specs = {uid: spec for uid in wanted if (spec := _specs.get(uid)) is not None}
    missing = [uid for uid in wanted if uid not in specs]
    for start in range(0, len(missing), BATCH_SIZE):
        batch, with_volumes = missing[start : start + BATCH_SIZE], []
        for uid, stored in Job.objects.filter(uid__in=batch).values_list("uid", "request"):
            specs[uid] = _spec_of_stored(stored)
            if stored.get("volumes"):
                with_volumes.append(uid)
        _add_volumes(specs, with_volumes)
    for uid in missing:
        if uid in specs:
            _specs.keep(uid, specs[uid])
    return specs


def _add_volumes(specs: dict[UUID, RequestSpec], uids: list[UUID]) -> None:
    """Of jobs that have volumes. What these lie below never changes while a job uses them."""
    for uid, words in (access_of_jobs(uids) if uids else {}).items():
        specs[uid] = replace(specs[uid], volume_access=words)


def waiting_jobs_from_queryset(rows: QuerySet[Job]) -> tuple[WaitingJob, ...]:
    """Queued jobs, in the order of `rows`. Three queries at most, and one if they need secrets."""
    return waiting_jobs_from_columns(list(rows.values_list(*SELECTED)))


def waiting_jobs_from_columns(columns: Sequence[Any]) -> tuple[WaitingJob, ...]:
    """Queued jobs. `columns`: of each, the values of SELECTED. Two queries at most, and one if they
    need secrets."""
    specs = request_specs(row[1] for row in columns)
    after = _after(_UNMET_OF_QUEUED.rows()) if columns else {}
    jobs = [waiting_job_from_columns(row, specs[row[1]], after.get(row[0], ())) for row in columns]
    return tuple(_without_secrets(jobs, [specs[row[1]] for row in columns]))


def waiting_job_from_row(job: Job) -> WaitingJob:
    """One job whose row was read with its project and owner."""
    return waiting_jobs_from_rows([job])[0]


def waiting_jobs_from_rows(jobs: Sequence[Job]) -> list[WaitingJob]:
    """Jobs as if they were queued, whatever they wait for. Two queries at most, and one if they
    need secrets."""
    after = _after(_UNMET_OF.rows([job.pk for job in jobs]))
    specs = request_specs(job.uid for job in jobs)
    waiting = [
        waiting_job_from_columns(
            [_column(job, column) for column in COLUMNS],
            specs[job.uid],
            after.get(job.pk, ()),
        )
        for job in jobs
    ]
    return _without_secrets(waiting, [specs[job.uid] for job in jobs])


def waiting_job_from_columns(
    row: Sequence[Any], spec: RequestSpec, after: tuple[str, ...] = ()
) -> WaitingJob:
    """`row`: the values of SELECTED, first of all. One that did not change is the same object."""
    kept, needs = _kept.get(row[0]), needs_of(spec.image)
    if kept and kept[0] == row and kept[1] == after and kept[2].image_needs is needs:
        return kept[2]
    job = _waiting_job(row, spec, after, needs)
    _kept.keep(row[0], (row, after, job))
    return job


def _column(job: Job, column: str) -> Any:
    """The value of the column, as `SELECTED` reads it."""
    value: Any = reduce(getattr, column.split("__"), job)
    if value is None or column not in SECONDS:
        return value
    return ceil(value.timestamp()) if SECONDS[column] is NextSecond else epoch_seconds(value)


def _waiting_job(
    row: Sequence[Any], spec: RequestSpec, after: tuple[str, ...], needs: ImageNeeds
) -> WaitingJob:
    value = dict(zip(COLUMNS, row, strict=False))
    owner = value["hold_owner"]
    return WaitingJob(
        id=str(value["id"]),
        name=value["name"],
        project=value["project__slug"],
        user=value["owner__username"],
        priority=Priority(value["priority"]),
        queued_at=value["queued_at"] or value["submitted_at"],
        replicas=spec.sizes[0] if spec.sizes else value["replica_count"],
        device=spec.device,
        cpu_milli=value["cpu_milli"],
        memory_mib=value["memory_mib"],
        topology=spec.topology,
        processes=spec.processes,
        time_limit_seconds=value["time_limit_seconds"],
        limit_is_chosen=value["limit_is_chosen"],
        attained_seconds=value["attained_seconds"],
        preemptible=value["preemptible"],
        preempted=value["preempted"],
        bypassed=value["bypassed"],
        begin_at=value["begin_at"] or 0,
        after=after,
        hold_reason=f"{value['hold_reason']} ({owner})" if owner else "",
        needs=spec.needs,
        tolerates=spec.tolerates,
        group=run_group(value["name"]),
        disk_mib=value["disk_mib"],
        launcher=spec.launcher,
        backend=spec.backend,
        command=spec.command,
        needs_rdma=spec.needs_rdma,
        git_host=spec.git_host,
        array=value["array_id"] or 0,
        array_cap=value["array_cap"],
        volume_access=spec.volume_access,
        image_needs=needs,
        sizes=spec.sizes,
        egress=EgressPolicy(value["project__egress"]),
    )


def waiting_job_from_request(
    request: JobRequest,
    *,
    id: str,
    project: str,
    user: str,
    queued_at: int,
    egress: str = EgressPolicy.ALL,
) -> WaitingJob:
    """A request as if it were queued now; a begin delay counts from then."""
    spec = _spec(request)
    begin_at = queued_at + request.begin_in if request.begin_in else request.begin_at
    return WaitingJob(
        id=id,
        name=request.name,
        project=project,
        user=user,
        priority=Priority(request.priority),
        queued_at=queued_at,
        replicas=spec.sizes[0] if spec.sizes else request.replicas,
        device=spec.device,
        cpu_milli=request.cpu_milli,
        memory_mib=request.memory_mib,
        topology=spec.topology,
        processes=spec.processes,
        time_limit_seconds=request.time_limit_seconds,
        limit_is_chosen=request.limit_is_chosen,
        preemptible=request.preemptible,
        begin_at=begin_at,
        after=tuple(parse_dependency(word).label.removeprefix("J-") for word in request.after),
        needs=spec.needs,
        tolerates=spec.tolerates,
        group=run_group(request.name),
        disk_mib=request.disk_mib,
        launcher=spec.launcher,
        backend=spec.backend,
        command=spec.command,
        needs_rdma=spec.needs_rdma,
        git_host=spec.git_host,
        volume_access=access_of_request(request) if request.volumes else (),
        image_needs=needs_of(request.image),
        sizes=spec.sizes,
        egress=EgressPolicy(egress),
    )


def run_group(name: str) -> str:
    """Runs of one user are alike if their names differ only in numbers."""
    return re.sub(r"[0-9]+", "#", name)


def epoch_seconds(at: datetime) -> int:
    """Whole seconds since the epoch."""
    return int(at.timestamp())


def _spec_of_stored(stored: Mapping[str, Any]) -> RequestSpec:
    """Thousands of requests differ in names, commands and times alone: those are read once."""
    if isinstance(stored.get("replicas"), Mapping):
        # Its sizes depend on every word of the command.
        return _spec(parse_stored_request(stored))
    values = [stored.get(name) for name in SPEC_FIELDS]
    traits = command_traits(stored.get("command") or ())
    code = stored.get("code", "")
    # Of code only where a repository has it: each folder that was sent has an id of its own.
    values.append(code if is_git_source(code) else "")
    key = json.dumps([*values, *astuple(traits)], sort_keys=True)
    spec = _by_fields.get(key)
    if spec is None:
        spec = _spec(parse_stored_request(stored))
        _by_fields.keep(key, spec)
    return spec


def _spec(request: JobRequest) -> RequestSpec:
    return RequestSpec(
        device=request.device,
        topology=request.topology,
        processes=request.processes,
        needs=request.needs,
        tolerates=request.tolerates,
        launcher=request.launcher,
        secrets=secret_names(request.secrets),
        backend=request.backend,
        command=command_traits(request.command),
        needs_rdma=request.rdma is RdmaUse.ON,
        git_host=request.git_source.endpoint if request.git_source else "",
        image=request.image,
        sizes=replica_sizes(request),
    )


def _without_secrets(jobs: Sequence[WaitingJob], specs: Sequence[RequestSpec]) -> list[WaitingJob]:
    """The jobs, marked where one of the secrets that they read does not exist any more."""
    reading = [job for job, spec in zip(jobs, specs, strict=True) if spec.secrets]
    if not reading:
        return list(jobs)
    known = known_secrets((job.user for job in reading), (job.project for job in reading))

    def missing(job: WaitingJob, spec: RequestSpec) -> str:
        owners = ((job.user, ""), ("", job.project))
        gone = (n for n in spec.secrets if not any((*owner, n) in known for owner in owners))
        return next(gone, "")

    pairs = ((job, missing(job, spec)) for job, spec in zip(jobs, specs, strict=True))
    return [replace(job, missing_secret=name) if name else job for job, name in pairs]


def _unmet(links: DependencyQuerySet[Dependency]) -> QuerySet[Dependency, tuple[Any, ...]]:
    rows = links.unmet().order_by("from_job_id", "to_job_id")
    return rows.values_list("from_job_id", "to_job_id", "to_job__array_id")


_UNMET_OF_QUEUED = KeptSelect(
    lambda: _unmet(Dependency.objects.filter(from_job__status=JobStatus.QUEUED))
)


_UNMET_OF = KeptSelect(
    lambda jobs: _unmet(Dependency.objects.filter(from_job__pk__in=jobs)), ListOf(Job._meta.pk)
)


def _after(rows: Iterable[tuple[Any, ...]]) -> dict[int, tuple[str, ...]]:
    """By job id: the jobs that it still has to wait for. Many of one array are the array."""
    unmet: dict[int, dict[int, int | None]] = defaultdict(dict)
    for job_id, after_id, array in rows:
        unmet[job_id][after_id] = array
    return {job_id: _dependencies(after) for job_id, after in unmet.items()}


def _dependencies(after: Mapping[int, int | None]) -> tuple[str, ...]:
    """The keys of jobs; A-5 in place of more than MAX_LISTED_MEMBERS of one array."""
    counts = Counter(array for array in after.values() if array)
    names = (
        f"A-{array}" if array and counts[array] > MAX_LISTED_MEMBERS else str(job)
        for job, array in after.items()
    )
    return tuple(dict.fromkeys(names))
