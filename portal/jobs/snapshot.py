"""Rows as the planner's values, in a constant number of queries. Decides nothing."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Q, QuerySet, Subquery, Sum

from agents.contract.documents import GpuMode, SliceKind
from portal.inventory.boards import profiles_of
from portal.inventory.models import Gpu, Node, Slice
from portal.jobs.models import Allocation, Job, Replica
from portal.quotas.models import Quota
from scheduler.core.request import JobRequest, parse_stored
from scheduler.core.states import (
    ALLOCATION_LIVE,
    SLICE_LIVE,
    GpuHealth,
    JobStatus,
    NodeStatus,
    SliceStatus,
)
from scheduler.core.values import (
    ClusterSnapshot,
    GpuView,
    NodeView,
    Priority,
    QuotaView,
    SliceView,
    WaitingJob,
)


def cluster_snapshot(
    *, now: datetime, nodes: Iterable[UUID] | None = None, jobs: QuerySet[Job] | None = None
) -> ClusterSnapshot:
    """The cluster as the rows have it: all nodes or only `nodes`, with `jobs` as the queue."""
    return ClusterSnapshot(
        now=int(now.timestamp()),
        nodes=_nodes(list(nodes) if nodes is not None else None),
        jobs=tuple(waiting_job(job) for job in jobs) if jobs is not None else (),
        quotas=_quotas(),
    )


def queue() -> QuerySet[Job]:
    """The jobs that wait for a place, oldest first."""
    waiting = Job.objects.filter(status=JobStatus.QUEUED)
    return waiting.select_related("project", "owner").order_by("queued_at", "id")


def waiting_job(job: Job) -> WaitingJob:
    """A job row as the planner sees it."""
    return as_waiting(
        parse_stored(job.request),
        id=str(job.pk),
        project=job.project.slug,
        user=job.owner.username,
        queued_at=int((job.queued_at or job.submitted_at).timestamp()),
    )


def as_waiting(
    request: JobRequest, *, id: str, project: str, user: str, queued_at: int
) -> WaitingJob:
    """A request as if it stood in the queue now."""
    return WaitingJob(
        id=id,
        name=request.name,
        project=project,
        user=user,
        priority=Priority(request.priority),
        queued_at=queued_at,
        replicas=request.replicas,
        device=request.device,
        cpu_milli=request.cpu_milli,
        memory_mib=request.memory_mib,
        topology=request.topology,
        processes=request.processes,
    )


def _quotas() -> tuple[QuotaView, ...]:
    rows = Quota.objects.select_related("project", "user").order_by("id")
    return tuple(
        QuotaView(
            project=row.project.slug,
            user=row.user.username if row.user else "",
            limit_units=row.limit_units,
            used_units=row.used_units,
        )
        for row in rows
    )


def _nodes(only: list[UUID] | None) -> tuple[NodeView, ...]:
    nodes = Node.objects.exclude(status=NodeStatus.RETIRED).defer("topology").order_by("name")
    if only is not None:
        nodes = nodes.filter(pk__in=only)
    gpus = _gpus(only)
    held = _held(only)
    return tuple(_node(row, gpus.get(row.pk, ()), held.get(row.pk, (0, 0))) for row in nodes)


def _node(row: Node, gpus: Iterable[GpuView], held: tuple[int, int]) -> NodeView:
    because = _unavailable(row)
    return NodeView(
        id=str(row.pk),
        name=row.name,
        available=not because,
        fabric=row.fabric,
        cpu_free_milli=row.cpu_milli - held[0],
        memory_free_mib=row.memory_mib - held[1],
        cpu_total_milli=row.cpu_milli,
        memory_total_mib=row.memory_mib,
        gpus=tuple(gpus),
        unavailable_because=because,
        share_clients=row.facts.get("share_clients", 0),
    )


def _unavailable(row: Node) -> str:
    if row.status != NodeStatus.ONLINE:
        return f"{row.name} is {row.status}"
    if not row.schedulable:
        return f"{row.name} is cordoned: {row.cordon_reason or 'no reason given'}"
    if blocks := row.facts.get("blocks"):
        return f"{row.name} blocks itself ({blocks[0]})"
    return ""


def _held(only: list[UUID] | None) -> dict[UUID, tuple[int, int]]:
    """CPU and memory that live replicas hold, by node."""
    live = Replica.objects.filter(allocations__status__in=_live()).distinct()
    if only is not None:
        live = live.filter(node_id__in=only)
    sums = (
        Replica.objects.filter(pk__in=live.values("pk"))
        .order_by()
        .values("node_id")
        .annotate(cpu=Sum("attempt__job__cpu_milli"), memory=Sum("attempt__job__memory_mib"))
    )
    return {row["node_id"]: (row["cpu"], row["memory"]) for row in sums}


def _gpus(only: list[UUID] | None) -> dict[UUID, list[GpuView]]:
    rows = Gpu.objects.order_by("node_id", "index")
    if only is not None:
        rows = rows.filter(node_id__in=only)
    slices = _slices(only)
    by_node: dict[UUID, list[GpuView]] = defaultdict(list)
    for row in rows:
        by_node[row.node_id].append(_gpu(row, slices.get(row.pk, [])))
    return by_node


def _gpu(row: Gpu, slices: list[SliceView]) -> GpuView:
    return GpuView(
        id=str(row.pk),
        index=row.index,
        board=row.board,
        product_name=row.product_name,
        memory_mib=row.memory_mib,
        mode=GpuMode(row.desired_mode),
        healthy=row.health == GpuHealth.OK and not row.busy,
        slices=tuple(slices),
        numa_node=row.numa_node,
        profiles=profiles_of(row),
    )


def _slices(only: list[UUID] | None) -> dict[UUID, list[SliceView]]:
    """Who holds a slice is read with it; shares of one GPU are of one project."""
    allocated = Allocation.objects.filter(slice=OuterRef("pk"), status__in=_live())
    condition = Q(status__in=[str(s) for s in SLICE_LIVE])
    if only is not None:
        condition &= Q(gpu__node_id__in=only)
    rows = Slice.objects.filter(condition).annotate(
        project=Subquery(allocated.values("project__slug")[:1])
    )
    by_gpu: dict[UUID, list[SliceView]] = defaultdict(list)
    for row in rows.order_by("gpu_id", "start", "id"):
        by_gpu[row.gpu_id].append(_slice(row))
    return by_gpu


def _slice(row: Any) -> SliceView:
    return SliceView(
        id=str(row.pk),
        kind=SliceKind(row.kind),
        profile=row.profile,
        start=row.start,
        size=row.size,
        held=row.project is not None,
        ready=row.status == SliceStatus.READY and not row.busy,
        threads=row.threads,
        memory_mib=row.memory_mib,
        clients=row.clients,
        project=row.project or "",
    )


def _live() -> list[str]:
    return [str(s) for s in ALLOCATION_LIVE]
