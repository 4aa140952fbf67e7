"""What nodes are, whatever runs on them: kept by each process until the inventory changes.

    current_inventory().capacity    ─▶ what could run if the cluster were empty
    current_inventory().host_nodes  ─▶ CPU and memory of each kind of node
    current_inventory().share_of(…) ─▶ the default CPU and memory of a request

A submit asks for the version in one query, and reads the nodes only where that moved; see
`portal.inventory.version`. Quotas change all the time and are never kept.
"""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from uuid import UUID

from django.db.models import Count

from agents.contract.documents import GpuMode
from portal.inventory.boards import profiles_of
from portal.inventory.models import Gpu, Node
from portal.inventory.version import inventory_version
from scheduler.core.devices.options import gpu_board
from scheduler.core.model.snapshot import ClusterSnapshot, DeviceRequest, GpuView, NodeView
from scheduler.core.placement.feasibility import ClusterCapacity
from scheduler.core.placement.host_shares import HostNode, host_share
from scheduler.core.request.values import HostShare

NODE_COLUMNS = (
    "pk",
    "fabric",
    "cpu_milli",
    "memory_mib",
    "disk_mib",
    "facts__share_clients",
    "labels",
    "taints",
)
# Shares of so many devices are kept; the request page asks for those of each card.
MAX_KEPT_SHARES = 512
GPU_COLUMNS = ("board", "product_name", "memory_mib", "profiles")


@dataclass(frozen=True, slots=True)
class InventoryView:
    """Every node that is not retired. One that is away, drained or blocked counts as well: it comes
    back."""

    version: int
    capacity: ClusterCapacity
    """Without quotas: see `ClusterCapacity.with_quotas`."""
    host_nodes: tuple[HostNode, ...]
    """Equal ones once."""
    _shares: dict[object, HostShare] = field(default_factory=dict, compare=False, repr=False)

    def share_of(
        self, device: DeviceRequest, *, needs: tuple[str, ...], tolerates: tuple[str, ...]
    ) -> HostShare:
        """As `host_share` says for these nodes."""
        key = (device, needs, tolerates)
        found = self._shares.get(key)
        if found is None:
            if len(self._shares) >= MAX_KEPT_SHARES:
                self._shares.clear()
            found = host_share(self.host_nodes, device, needs=needs, tolerates=tolerates)
            self._shares[key] = found
        return found


_last: list[InventoryView] = []
_reading = Lock()


def current_inventory(version: int | None = None) -> InventoryView:
    """The view of this version: one query, and two more if the version moved. `version`: as just
    read together with other rows, which saves the first."""
    if version is None:
        version = inventory_version()
    if view := _cached(version):
        return view
    with _reading:
        # Another thread may have read it meanwhile.
        view = _cached(version) or _read(version)
        _last[:] = [view]
    return view


def clear() -> None:
    """Drop the view: every test has its own database."""
    _last.clear()


def _cached(version: int) -> InventoryView | None:
    view = _last[0] if _last else None
    return view if view and view.version == version else None


def _read(version: int) -> InventoryView:
    gpus = _gpus_by_node()
    rows: Any = Node.objects.active().order_by("name").values_list(*NODE_COLUMNS)
    nodes = tuple(_node(row, tuple(gpus.get(row[0], ()))) for row in rows)
    empty = ClusterSnapshot(now=0, nodes=nodes)
    return InventoryView(version, ClusterCapacity(empty), _host_nodes(nodes))


def _node(row: tuple[Any, ...], gpus: tuple[GpuView, ...]) -> NodeView:
    """An empty node."""
    pk, fabric, cpu_milli, memory_mib, disk_mib, share_clients, labels, taints = row
    return NodeView(
        id=str(pk),
        name="",
        available=True,
        fabric=fabric,
        cpu_free_milli=cpu_milli,
        memory_free_mib=memory_mib,
        cpu_total_milli=cpu_milli,
        memory_total_mib=memory_mib,
        gpus=gpus,
        share_clients=share_clients or 0,
        labels=tuple(labels),
        taints=tuple(taints),
        disk_free_mib=disk_mib or 0,
        disk_total_mib=disk_mib,
    )


def _gpus_by_node() -> dict[UUID, list[GpuView]]:
    """GPUs of one kind are one object, however many there are."""
    alike = Gpu.objects.order_by("node_id", "board").values_list("node_id", *GPU_COLUMNS)
    kinds: dict[tuple[Any, ...], GpuView] = {}
    by_node: dict[UUID, list[GpuView]] = defaultdict(list)
    for node, *values, count in alike.annotate(count=Count("pk")):
        key = (*values[:3], json.dumps(values[3]))
        if key not in kinds:
            kinds[key] = _gpu(Gpu(**dict(zip(GPU_COLUMNS, values, strict=True))))
        by_node[node] += [kinds[key]] * count
    return by_node


def _gpu(row: Gpu) -> GpuView:
    """An empty GPU that stands for all of its kind."""
    return GpuView(
        id="",
        index=0,
        board=row.board,
        product_name=row.product_name,
        memory_mib=row.memory_mib,
        mode=GpuMode.WHOLE,
        healthy=True,
        profiles=profiles_of(row.profiles),
    )


def _host_nodes(nodes: tuple[NodeView, ...]) -> tuple[HostNode, ...]:
    found: dict[object, HostNode] = {}
    for node in nodes:
        boards = tuple(map(gpu_board, node.gpus))
        room = (node.cpu_total_milli, node.memory_total_mib)
        key = (*room, tuple(map(id, boards)), node.labels, node.taints)
        found.setdefault(key, HostNode(*room, boards, node.labels, node.taints))
    return tuple(found.values())
