"""Compiles desired documents from rows, in as many statements for any number of nodes as for one.

Equal rows give equal documents: their order is fixed.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import UUID

from django.db.models import FilteredRelation, Q, QuerySet

from agents.contract.documents import (
    DesiredDocument,
    DesiredGpu,
    DesiredReplica,
    DesiredReplicaState,
    DesiredSlice,
    Device,
    GpuMode,
    Rendezvous,
    SliceKind,
)
from agents.contract.egress import EgressPolicy
from agents.contract.gang_network import GangNetwork
from agents.contract.profilers import Profiler
from agents.contract.volumes import DesiredVolume
from portal.allocations.models import Allocation
from portal.database.kept_queries import KeptSelect, ListOf
from portal.desired.kept_requests import request_of
from portal.desired.rdma import attempts_with_rdma
from portal.files.selectors import jobs_with_checkpoint, saving_jobs
from portal.gang_networks.documents import desired_networks
from portal.gang_networks.ranks import GangRank, gang_ranks
from portal.inventory.models import Gpu, Node
from portal.job_secrets.gang_keys import desired_gang_key
from portal.jobs.git_commits import commits_to_fetch, desired_git
from portal.jobs.images import digests_to_run
from portal.jobs.lifecycle import seconds_left
from portal.jobs.models import DesiredState, Replica
from portal.jobs.preflights import PREFLIGHT_SECONDS, attempt_request
from portal.volumes.selectors import desired_volumes
from scheduler.core.model.states import SliceStatus
from scheduler.core.request.secrets import desired_secrets

DESIRED_SLICES = [SliceStatus.PLANNED, SliceStatus.CREATING, SliceStatus.READY, SliceStatus.FAILED]
_REPLICA, _ATTEMPT, _JOB = "replica__", "replica__attempt__", "replica__attempt__job__"
_NETWORK = _ATTEMPT + "gang_network__"
# A column that is missing here is read by a statement of its own for each row.
_COLUMNS = (
    *("slice_id", "replica_id"),
    *(_REPLICA + name for name in ("node_id", "rank", "desired_state", "address", "port")),
    *(_REPLICA + name for name in ("attempt_id", "gone_revision", "stop_revision")),
    *(_ATTEMPT + name for name in ("number", "egress", "job_id")),
    *(_ATTEMPT + name for name in ("replica_count", "joined_replicas", "preflight")),
    *(_NETWORK + name for name in ("attempt_id", "number", "subnet", "kind", "mtu")),
    *(_JOB + name for name in ("uid", "name", "image", "request", "replica_count", "project_id")),
    _JOB + "resumes_id",
    *(_JOB + name for name in ("cpu_milli", "memory_mib", "disk_mib", "owner_id")),
    *(_JOB + name for name in ("time_limit_seconds", "attained_seconds")),
    *(_JOB + "project__slug", _JOB + "owner__username"),
    *("slice__" + name for name in ("kind", "profile", "start", "size", "threads", "memory_mib")),
    *("slice__gpu_id", "slice__gpu__uuid", "slice__gpu__index"),
)


def _gpus_of(nodes: Any) -> QuerySet[Gpu, tuple[Any, ...]]:
    carved = Q(slices__kind=SliceKind.MIG, slices__status__in=DESIRED_SLICES)
    rows = Gpu.objects.filter(node__pk__in=nodes).annotate(
        carved=FilteredRelation("slices", condition=carved)
    )
    columns = ("carved__id", "carved__profile", "carved__start", "carved__size")
    return rows.order_by("uuid").values_list("node_id", "uuid", "desired_mode", *columns)


def _devices_of(nodes: Any) -> QuerySet[Allocation]:
    rows = Allocation.objects.live().filter(replica__node__pk__in=nodes)
    rows = rows.select_related(
        *("slice__gpu", "replica__attempt__job__project", "replica__attempt__job__owner"),
        "replica__attempt__gang_network",
    )
    return rows.only(*_COLUMNS).order_by("replica_id", "slice__gpu__index", "slice__start")


_GPUS = KeptSelect(_gpus_of, ListOf(Node._meta.pk))
_DEVICES = KeptSelect(_devices_of, ListOf(Node._meta.pk))


@dataclass(frozen=True, slots=True)
class CompiledDocument:
    document: DesiredDocument
    """With the revision that the node has now."""
    replicas: tuple[Replica, ...]
    """All of the node with live devices, also those that are left out of the document."""


def compile_desired(node: Node) -> DesiredDocument:
    """The whole document of one node."""
    return documents_compile([node])[node.pk].document


def documents_compile(nodes: Iterable[Node]) -> dict[UUID, CompiledDocument]:
    """The whole documents of these nodes, by primary key."""
    nodes = list(nodes)
    pks = [node.pk for node in nodes]
    gpus, slices = _gpus(pks)
    devices = _devices(pks)
    replicas: dict[UUID | None, list[Replica]] = defaultdict(list)
    for rows in devices.values():
        replica = rows[0].replica
        replicas[replica.node_id].append(replica)
    ranks = gang_ranks(
        row.attempt_id for rows in replicas.values() for row in rows if row.attempt.world > 1
    )
    rendezvous = _rendezvous((row for rows in replicas.values() for row in rows), ranks)
    saved = _jobs_with_checkpoint(row for rows in replicas.values() for row in rows)
    volumes = _volumes(row for rows in replicas.values() for row in rows)
    digests = digests_to_run(row.attempt for rows in replicas.values() for row in rows)
    commits = commits_to_fetch(row.attempt for rows in replicas.values() for row in rows)
    networks = desired_networks((row for rows in replicas.values() for row in rows), ranks)
    pinning = _pinning(pks) if digests else frozenset[UUID]()
    profiling = _profiling(pks, (row for rows in replicas.values() for row in rows))
    with_rdma = attempts_with_rdma(devices.values(), ranks)
    return {
        node.pk: CompiledDocument(
            DesiredDocument(
                node=str(node.pk),
                revision=node.revision,
                gpus=tuple(gpus[node.pk]),
                slices=tuple(sorted(slices[node.pk], key=lambda row: row.id)),
                replicas=tuple(
                    _replica(
                        row,
                        devices[row.pk],
                        rendezvous.get(row.attempt_id),
                        saved,
                        volumes,
                        digests.get(row.attempt_id, "") if node.pk in pinning else "",
                        networks.get(row.pk),
                        with_rdma,
                        commits.get(row.attempt_id, ""),
                        node.pk in profiling,
                    )
                    for row in replicas[node.pk]
                    if row.desired_state != DesiredState.GONE
                ),
                allow_mass_removal=node.allow_mass_removal,
            ),
            tuple(replicas[node.pk]),
        )
        for node in nodes
    }


def _gpus(
    nodes: list[UUID],
) -> tuple[Mapping[UUID, list[DesiredGpu]], Mapping[UUID, list[DesiredSlice]]]:
    """By node: its GPUs, and the MIG slices that it is to have."""
    gpus: dict[UUID, list[DesiredGpu]] = defaultdict(list)
    slices: dict[UUID, list[DesiredSlice]] = defaultdict(list)
    in_order = _GPUS.rows(nodes)
    for (node, uuid, mode), placed in groupby(in_order, key=lambda row: row[:3]):
        gpus[node].append(DesiredGpu(uuid=uuid, mode=GpuMode(mode)))
        slices[node] += [
            DesiredSlice(id=str(pk), gpu_uuid=uuid, profile=profile, start=start, size=size)
            for _, _, _, pk, profile, start, size in placed
            if pk is not None
        ]
    return gpus, slices


def _devices(nodes: list[UUID]) -> dict[UUID, list[Allocation]]:
    """The live allocations of each replica on these nodes, each with all that a document names."""
    devices: dict[UUID, list[Allocation]] = defaultdict(list)
    for row in _DEVICES.rows(nodes):
        devices[row.replica_id].append(row)
    return devices


def device_of(row: Allocation) -> Device:
    """As a document names it."""
    return Device(
        allocation=str(row.pk),
        slice=str(row.slice_id),
        kind=SliceKind(row.own_slice.kind),
        gpu_uuid=row.own_slice.gpu.uuid,
        profile=row.own_slice.profile,
        start=row.own_slice.start,
        size=row.own_slice.size,
        threads=row.own_slice.threads,
        memory_mib=row.own_slice.memory_mib if row.own_slice.threads else 0,
    )


def _rendezvous(
    replicas: Iterable[Replica], ranks: Mapping[int, Sequence[GangRank]]
) -> dict[int, Rendezvous]:
    """The rendezvous of each running gang: what rank 0 offered when it was ready. A replica alone
    runs before it has offered anything, and meets nobody. `ranks`: by attempt, those of gangs."""
    running = {row.attempt_id for row in replicas if row.desired_state == DesiredState.RUN}
    return {
        attempt: Rendezvous(
            address=gang[0].address,
            port=gang[0].port,
            peers=tuple(each.address for each in gang),
        )
        for attempt, gang in ranks.items()
        if attempt in running and gang[0].address and gang[0].port
    }


def _jobs_with_checkpoint(replicas: Iterable[Replica]) -> frozenset[int]:
    """Jobs that an earlier attempt has saved, or the job that they resume. Nothing is asked for
    first attempts of others."""
    jobs = [
        row.attempt.job for row in replicas if row.attempt.number > 1 or row.attempt.job.resumes_id
    ]
    if not jobs:
        return frozenset()
    saved = jobs_with_checkpoint({pk for job in jobs for pk in saving_jobs(job)})
    return frozenset(job.pk for job in jobs if saved.intersection(saving_jobs(job)))


def _volumes(replicas: Iterable[Replica]) -> Mapping[int, tuple[DesiredVolume, ...]]:
    """By job. Nothing is asked for jobs without volumes."""
    jobs = {row.attempt.job_id for row in replicas if row.attempt.job.request.get("volumes")}
    return desired_volumes(jobs) if jobs else {}


def _pinning(nodes: Collection[UUID]) -> frozenset[UUID]:
    """Those whose agents know digests: an older one would refuse the replica."""
    rows = Node.objects.filter(pk__in=nodes, facts__pins_images=True)
    return frozenset(rows.values_list("pk", flat=True))


def _profiling(nodes: Collection[UUID], replicas: Iterable[Replica]) -> frozenset[UUID]:
    """Those whose agents have a profiler: an older one runs the job without. Nothing is asked for
    jobs without one."""
    profilers = {row.attempt.job.request.get("profiler", Profiler.NONE) for row in replicas}
    if profilers <= {Profiler.NONE}:
        return frozenset()
    rows = Node.objects.filter(pk__in=nodes, facts__has_profiler=True)
    return frozenset(rows.values_list("pk", flat=True))


def _replica(
    row: Replica,
    devices: list[Allocation],
    meet: Rendezvous | None,
    saved: frozenset[int],
    volumes: Mapping[int, tuple[DesiredVolume, ...]],
    digest: str,
    network: GangNetwork | None,
    with_rdma: Collection[int],
    commit: str,
    may_profile: bool,
) -> DesiredReplica:
    job, joined, is_check = row.attempt.job, row.attempt.joined_replicas, row.attempt.is_preflight
    request = attempt_request(row.attempt, request_of(job))
    return DesiredReplica(
        id=str(row.pk),
        job=str(job.uid),
        attempt=row.attempt.number,
        rank=row.rank,
        world=row.attempt.world,
        fence=row.attempt.fence,
        wish=DesiredReplicaState(row.desired_state),
        project=job.project.slug,
        user=job.owner.username,
        name=job.name,
        image=request.image,
        command=tuple(request.command),
        launcher=request.launcher,
        env=dict(request.env),
        cpu_milli=job.cpu_milli * joined,
        memory_mib=job.memory_mib * joined,
        shm_mib=request.shm_mib * joined,
        devices=tuple(map(device_of, devices)),
        processes=request.processes * joined,
        backend=request.backend,
        grace_seconds=request.grace_seconds,
        time_limit_seconds=PREFLIGHT_SECONDS if is_check else seconds_left(job),
        rendezvous=meet,
        disk_mib=job.disk_mib * joined,
        code_tree=request.code_tree,
        code_git=desired_git(request, commit),
        has_checkpoint=job.pk in saved and not is_check,
        secrets=(*desired_secrets(request.secrets), *desired_gang_key(request)),
        volumes=() if is_check else volumes.get(job.pk, ()),
        image_digest=digest,
        gang_network=network,
        rdma=row.attempt_id in with_rdma,
        egress=EgressPolicy(row.attempt.egress),
        profiler=request.profiler if may_profile else Profiler.NONE,
    )
