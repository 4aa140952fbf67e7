"""Nodes, GPUs, slices and quotas as the planner's values, in a constant number of queries."""

import json
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Subquery, Sum, TextField
from django.db.models.functions import Cast

from agents.contract.codec import decode
from agents.contract.documents import FIRST_LAUNCHERS, GpuMode, SliceKind
from agents.contract.errors import ContractError
from agents.contract.topology import NodeTopology
from portal.allocations.models import Allocation
from portal.allocations.selectors import allocated_replicas
from portal.inventory.boards import profiles_of
from portal.inventory.models import Gpu, Node, Slice
from portal.jobs.models import Replica
from portal.planning.requests import epoch_seconds
from portal.quotas.models import Quota
from scheduler.core.model.links import UNKNOWN, Links, links_of
from scheduler.core.model.message_templates import NODE_AWAITED, NODE_HOLDING
from scheduler.core.model.snapshot import ClusterSnapshot, GpuView, NodeView, QuotaView, SliceView
from scheduler.core.model.states import (
    NODE_SILENT,
    GpuHealth,
    NodeStatus,
    SliceStatus,
)


def cluster_snapshot(*, now: datetime, nodes: Iterable[UUID] | None = None) -> ClusterSnapshot:
    """Nodes and quotas alone: all nodes, or only `nodes`. Enough to check whether a job could ever
    run, or whether a placement still fits; `planner_input` adds the queue."""
    return ClusterSnapshot(
        now=int(now.timestamp()),
        nodes=_nodes(list(nodes) if nodes is not None else None),
        quotas=quota_views(),
    )


def quota_views() -> tuple[QuotaView, ...]:
    """Every quota, and what is in use of it. One query."""
    rows: Iterable[tuple[Any, ...]] = Quota.objects.order_by("id").values_list(
        "project__slug",
        "user__username",
        "limit_units",
        "used_units",
        "model",
        "borrow_units",
        "lend_units",
    )
    return tuple(QuotaView(project, user or "", *rest) for project, user, *rest in rows)


def _nodes(only: list[UUID] | None) -> tuple[NodeView, ...]:
    nodes = Node.objects.active().order_by("name")
    nodes = nodes.defer("topology", "desired").annotate(topology_json=Cast("topology", TextField()))
    if only is not None:
        nodes = nodes.filter(pk__in=only)
    gpus = _gpus(only)
    allocated = _allocated(only)
    # After a restore a queued job may already run on a node that has not reported yet.
    awaited = next((row.name for row in nodes if row.restored_at and not _is_silent(row)), "")
    return tuple(
        _node(row, gpus.get(row.pk, ()), allocated.get(row.pk, (0, 0, 0)), awaited) for row in nodes
    )


def _is_silent(row: Node) -> bool:
    return row.status in NODE_SILENT or row.status == NodeStatus.ENROLLED


def _node(
    row: Any, gpus: Iterable[GpuView], allocated: tuple[int, int, int], awaited: str
) -> NodeView:
    key, reason = _unavailable(row, awaited)
    return NodeView(
        id=str(row.pk),
        name=row.name,
        available=not key,
        fabric=row.fabric,
        cpu_free_milli=row.cpu_milli - allocated[0],
        memory_free_mib=row.memory_mib - allocated[1],
        cpu_total_milli=row.cpu_milli,
        memory_total_mib=row.memory_mib,
        gpus=tuple(gpus),
        unavailable_reason=reason,
        unavailable_key=key,
        launchers=tuple(row.facts.get("launchers", FIRST_LAUNCHERS)),
        agent_version=str(row.facts.get("agent_version", "")),
        share_clients=row.facts.get("share_clients", 0),
        labels=tuple(row.labels),
        taints=tuple(row.taints),
        links=_links(row.topology_json),
        disk_free_mib=0 if row.disk_mib is None else row.disk_mib - allocated[2],
        disk_total_mib=row.disk_mib,
    )


@lru_cache(4_096)
def _links(topology: str) -> Links:
    """How fast a node's GPUs reach each other. Cached: a stored topology rarely changes."""
    stored = json.loads(topology)
    try:
        return links_of(decode(NodeTopology, stored)) if stored else UNKNOWN
    except ContractError:
        return UNKNOWN


def _unavailable(row: Node, awaited: str) -> tuple[str, str]:
    """Why the node takes no work: a key of the planner's messages, and an admin's words.

    `awaited`: a node that has not reported since the database was restored, if there is one."""
    if row.status != NodeStatus.ONLINE:
        return f"node.{row.status}", ""
    if not row.schedulable:
        reason = str(row.cordon_reason)
        return ("node.cordoned", reason) if reason else ("node.cordoned_silently", "")
    if row.holding_since is not None:
        return NODE_HOLDING, ""
    if row.restored_at is not None or awaited:
        return NODE_AWAITED, awaited or row.name
    if blocks := row.facts.get("blocks"):
        return "node.blocks", str(blocks[0])
    return "", ""


def _allocated(only: list[UUID] | None) -> dict[UUID, tuple[int, int, int]]:
    """CPU, memory and disk allocated to replicas, by node."""
    live = allocated_replicas()
    if only is not None:
        live = live.filter(node_id__in=only)
    sums = (
        Replica.objects.filter(pk__in=live.values("pk"))
        .order_by()
        .values("node_id")
        .annotate(
            cpu=Sum("attempt__job__cpu_milli"),
            memory=Sum("attempt__job__memory_mib"),
            disk=Sum("attempt__job__disk_mib"),
        )
    )
    return {row["node_id"]: (row["cpu"], row["memory"], row["disk"]) for row in sums}


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
        pinned=row.pinned,
        settles_at=epoch_seconds(row.settles_at) if row.settles_at else 0,
    )


def _slices(only: list[UUID] | None) -> dict[UUID, list[SliceView]]:
    """With the project that has the slice; all shares of one GPU are of one project."""
    allocated = Allocation.objects.live().filter(slice=OuterRef("pk"))
    rows = Slice.objects.live().annotate(project=Subquery(allocated.values("project__slug")[:1]))
    if only is not None:
        rows = rows.filter(gpu__node_id__in=only)
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
        allocated=row.project is not None,
        ready=row.status == SliceStatus.READY and not row.busy,
        threads=row.threads,
        memory_mib=row.memory_mib,
        clients=row.clients,
        project=row.project or "",
    )
