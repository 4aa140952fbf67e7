"""Nodes with their GPUs, slices and live allocations, as the planner's values.

    node_records()          ─▶ of all nodes, in five queries
    node_records(some)      ─▶ of some
    node_views(records)     ─▶ as the planner sees them together

The rows are read by `portal.planning.node_rows`.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any
from uuid import UUID

from agents.contract.codec import decode
from agents.contract.documents import GpuMode, SliceKind
from agents.contract.errors import ContractError
from agents.contract.image_needs import NodeFit
from agents.contract.launcher_names import FIRST_LAUNCHERS
from agents.contract.topology import NodeTopology
from portal.gang_networks.joining import network_of_node
from portal.inventory.boards import profiles_of
from portal.planning.node_rows import read_gpus, read_nodes, read_slices, read_sums
from portal.planning.requests import epoch_seconds
from portal.planning.running import LiveAllocation, live_allocations
from scheduler.core.model.links import UNKNOWN, Links, links_of
from scheduler.core.model.message_templates import NODE_AWAITED, NODE_HOLDING
from scheduler.core.model.snapshot import GpuView, NodeView, SliceView
from scheduler.core.model.states import NODE_SILENT, GpuHealth, NodeStatus, SliceStatus

Amounts = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node by itself."""

    view: NodeView
    """As if no node were awaited."""
    is_retired: bool
    is_awaited: bool
    """It has not reported since the database was restored, and could."""
    takes_work: bool
    """Unless one is awaited, or the node itself blocks it."""
    live: tuple[LiveAllocation, ...]
    """On its GPUs."""


def node_records(only: Collection[UUID] | None = None) -> dict[UUID, NodeRecord]:
    """Of all nodes, or of `only`. Five queries."""
    rows = read_nodes(only)
    gpus, allocated, live = _gpus(only), _allocated(only), _live(only)
    return {
        row[0]: _record(row, gpus.get(row[0], ()), allocated.get(row[0], (0, 0, 0)), live[row[0]])
        for row in rows
    }


def node_views(records: Iterable[NodeRecord]) -> tuple[NodeView, ...]:
    """All that are not retired, by name. After a restore a queued job may already run on a node
    that has not reported yet: until then, none takes work."""
    active = (record for record in records if not record.is_retired)
    found = sorted(active, key=attrgetter("view.name"))
    awaited = next((record.view.name for record in found if record.is_awaited), "")
    if not awaited:
        return tuple(record.view for record in found)
    waits = {
        "available": False,
        "unavailable_key": NODE_AWAITED,
        "unavailable_reason": awaited,
    }
    return tuple(
        replace(record.view, **waits) if record.takes_work else record.view  # type: ignore[arg-type]
        for record in found
    )


def _record(
    row: Sequence[Any], gpus: Iterable[GpuView], allocated: Amounts, live: list[LiveAllocation]
) -> NodeRecord:
    pk, name, status, schedulable, cordon_reason, holding_since, restored_at, *rest = row
    fabric, cpu_milli, memory_mib, disk_mib, labels, taints, blocks, *rest = rest
    launchers, share_clients, volume_access, overlay, rdma, git_hosts, *rest = rest
    limits_egress, *rest = rest
    agent_version, topology, *fit = rest
    takes_work = status == NodeStatus.ONLINE and schedulable and holding_since is None
    key, reason = "", ""
    if status != NodeStatus.ONLINE:
        key = f"node.{status}"
    elif not schedulable:
        key = "node.cordoned" if cordon_reason else "node.cordoned_silently"
        reason = cordon_reason
    elif holding_since is not None:
        key = NODE_HOLDING
    elif blocks:
        key, reason = "node.blocks", str(blocks[0])
    view = NodeView(
        id=str(pk),
        name=name,
        available=not key,
        fabric=network_of_node(fabric, overlay),
        cpu_free_milli=cpu_milli - allocated[0],
        memory_free_mib=memory_mib - allocated[1],
        cpu_total_milli=cpu_milli,
        memory_total_mib=memory_mib,
        gpus=tuple(gpus),
        unavailable_reason=reason,
        unavailable_key=key,
        launchers=FIRST_LAUNCHERS if launchers is None else tuple(launchers),
        agent_version=agent_version or "",
        share_clients=share_clients or 0,
        volume_access=tuple(volume_access or ()),
        rdma=rdma or "",
        git_hosts=tuple(git_hosts or ()),
        fit=NodeFit(*(text or "" for text in fit)),
        overlay=str(overlay["kind"]) if overlay else "",
        limits_egress=bool(limits_egress),
        labels=tuple(labels),
        taints=tuple(taints),
        links=_links(topology),
        disk_free_mib=0 if disk_mib is None else disk_mib - allocated[2],
        disk_total_mib=disk_mib,
    )
    is_silent = status in NODE_SILENT or status in (NodeStatus.ENROLLED, NodeStatus.RETIRED)
    return NodeRecord(
        view=view,
        is_retired=status == NodeStatus.RETIRED,
        is_awaited=restored_at is not None and not is_silent,
        takes_work=takes_work,
        live=tuple(live),
    )


@lru_cache(4_096)
def _links(topology: str) -> Links:
    """How fast a node's GPUs reach each other. Cached: a stored topology rarely changes."""
    stored = json.loads(topology)
    try:
        return links_of(decode(NodeTopology, stored)) if stored else UNKNOWN
    except ContractError:
        return UNKNOWN


def _allocated(only: Collection[UUID] | None) -> dict[UUID, Amounts]:
    """CPU, memory and disk allocated to replicas, by node."""
    return {node: (cpu, memory, disk) for node, cpu, memory, disk in read_sums(only)}


def _live(only: Collection[UUID] | None) -> dict[UUID, list[LiveAllocation]]:
    by_node: dict[UUID, list[LiveAllocation]] = defaultdict(list)
    for row in live_allocations(only):
        by_node[row.gpu_node].append(row)
    return by_node


def _gpus(only: Collection[UUID] | None) -> dict[UUID, list[GpuView]]:
    slices = _slices(only)
    by_node: dict[UUID, list[GpuView]] = defaultdict(list)
    for row in read_gpus(only):
        by_node[row[0]].append(_gpu(row, slices.get(row[1], ())))
    return by_node


def _gpu(row: Sequence[Any], slices: Iterable[SliceView]) -> GpuView:
    _, pk, index, board, product_name, memory_mib, mode, health, busy, *rest = row
    numa_node, profiles, pinned, settles_at = rest
    return GpuView(
        id=str(pk),
        index=index,
        board=board,
        product_name=product_name,
        memory_mib=memory_mib,
        mode=GpuMode(mode),
        healthy=health == GpuHealth.OK and not busy,
        slices=tuple(slices),
        numa_node=numa_node,
        profiles=profiles_of(profiles),
        pinned=pinned,
        settles_at=epoch_seconds(settles_at) if settles_at else 0,
    )


def _slices(only: Collection[UUID] | None) -> dict[UUID, list[SliceView]]:
    """With the project that has the slice; all shares of one GPU are of one project."""
    by_gpu: dict[UUID, list[SliceView]] = defaultdict(list)
    for gpu, *row in read_slices(only):
        by_gpu[gpu].append(_slice(row))
    return by_gpu


def _slice(row: Sequence[Any]) -> SliceView:
    pk, kind, profile, start, size, status, busy, threads, memory_mib, clients, project = row
    return SliceView(
        id=str(pk),
        kind=SliceKind(kind),
        profile=profile,
        start=start,
        size=size,
        allocated=project is not None,
        ready=status == SliceStatus.READY and not busy,
        threads=threads,
        memory_mib=memory_mib,
        clients=clients,
        project=project or "",
    )
