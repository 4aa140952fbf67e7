"""How much of the cluster is available now, in a few numbers."""

from dataclasses import dataclass

from django.db.models import Count, Q

from agents.contract.documents import SliceKind
from portal.allocations.querysets import LIVE_ALLOCATION_STATUSES
from portal.inventory.models import Gpu, Node, Slice
from scheduler.core.model.states import GpuHealth, NodeStatus, SliceStatus


@dataclass(frozen=True, slots=True)
class ClusterAvailability:
    """Totals over all nodes that are not retired."""

    nodes: int = 0
    # In service, on nodes that take work.
    gpus: int = 0
    # Of those, with nothing allocated.
    free: int = 0
    # MIG slices that are ready and not allocated.
    idle_slices: int = 0
    # GPUs with a fault.
    out_of_service: int = 0


def cluster_availability() -> ClusterAvailability:
    """Four queries. The same rules as `portal.web.cluster.node_health.takes_work`."""
    columns = ("pk", "status", "schedulable", "facts__blocks")
    rows = list(Node.objects.values_list(*columns))
    retired = [pk for pk, status, *_ in rows if status == NodeStatus.RETIRED]
    nodes = [row for row in rows if row[1] != NodeStatus.RETIRED]
    closed = [
        pk
        for pk, status, schedulable, blocks in nodes
        if status != NodeStatus.ONLINE or not schedulable or blocks
    ]
    in_service = Q(health=GpuHealth.OK)
    takes = ~Q(node_id__in=closed) & in_service & Q(busy="")
    listed = Gpu.objects.exclude(node__status=NodeStatus.RETIRED)
    found = listed.aggregate(gpus=Count("pk", filter=takes), out=Count("pk", filter=~in_service))
    usable = Q(gpu__health=GpuHealth.OK, gpu__busy="") & ~Q(gpu__node_id__in=[*closed, *retired])
    made = Q(kind=SliceKind.MIG, status=SliceStatus.READY)
    # A slice has at most one live allocation, so the rest is idle.
    allocated = Slice.objects.filter(
        usable, allocations__status__in=LIVE_ALLOCATION_STATUSES
    ).aggregate(gpus=Count("gpu_id", distinct=True), made=Count("pk", filter=made))
    ready = Slice.objects.filter(usable, made).count() - allocated["made"]
    return ClusterAvailability(
        len(nodes), found["gpus"], found["gpus"] - allocated["gpus"], ready, found["out"]
    )
