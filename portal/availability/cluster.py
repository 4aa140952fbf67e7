"""How much of the cluster is free now, in numbers: for a line, however many GPUs there are."""

from dataclasses import dataclass

from django.db.models import Count, Q

from agents.contract.documents import SliceKind
from portal.inventory.models import Gpu, Node, Slice
from portal.jobs.querysets import values_of
from scheduler.core.model.states import ALLOCATION_LIVE, GpuHealth, NodeStatus, SliceStatus


@dataclass(frozen=True, slots=True)
class ClusterAvailability:
    """`gpus`: in service, on nodes that take work; `free` of them hold nothing for anybody.
    `slices`: MIG slices that are made and held by nobody. `out`: GPUs out of service."""

    nodes: int = 0
    gpus: int = 0
    free: int = 0
    idle_slices: int = 0
    out_of_service: int = 0


def cluster_availability() -> ClusterAvailability:
    """Four queries. The same rules as `portal.web.cluster.node_health.takes_work`."""
    columns = ("pk", "status", "schedulable", "facts__blocks")
    every = list(Node.objects.values_list(*columns))
    retired = [pk for pk, status, *_ in every if status == NodeStatus.RETIRED]
    nodes = [row for row in every if row[1] != NodeStatus.RETIRED]
    shut = [
        pk
        for pk, status, schedulable, blocks in nodes
        if status != NodeStatus.ONLINE or not schedulable or blocks
    ]
    in_service = Q(health=GpuHealth.OK)
    takes = ~Q(node_id__in=shut) & in_service & Q(busy="")
    listed = Gpu.objects.exclude(node__status=NodeStatus.RETIRED)
    found = listed.aggregate(gpus=Count("pk", filter=takes), out=Count("pk", filter=~in_service))
    usable = Q(gpu__health=GpuHealth.OK, gpu__busy="") & ~Q(gpu__node_id__in=[*shut, *retired])
    made = Q(kind=SliceKind.MIG, status=SliceStatus.READY)
    # A slice has at most one live allocation, so those that nobody holds are the others.
    held = Slice.objects.filter(usable, allocations__status__in=values_of(ALLOCATION_LIVE)).aggregate(
        gpus=Count("gpu_id", distinct=True), made=Count("pk", filter=made)
    )
    ready = Slice.objects.filter(usable, made).count() - held["made"]
    return ClusterAvailability(
        len(nodes), found["gpus"], found["gpus"] - held["gpus"], ready, found["out"]
    )
