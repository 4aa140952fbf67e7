"""How much of the cluster is free now, in numbers: for a line, however many GPUs there are."""

from dataclasses import dataclass

from django.db.models import Count, Exists, OuterRef, Q

from agents.contract.documents import SliceKind
from portal.inventory.models import Gpu, Node, Slice
from portal.inventory.selectors import LIVE
from portal.jobs.models import Allocation
from scheduler.core.states import GpuHealth, NodeStatus, SliceStatus


@dataclass(frozen=True, slots=True)
class Free:
    """`gpus`: in service, on nodes that take work; `free` of them hold nothing for anybody.
    `slices`: MIG slices that are made and held by nobody. `out`: GPUs out of service."""

    nodes: int = 0
    gpus: int = 0
    free: int = 0
    slices: int = 0
    out: int = 0


def free_now() -> Free:
    """Four queries. The same rules as `portal.web.health.takes_work`."""
    columns = ("pk", "status", "schedulable", "facts__blocks")
    nodes = list(Node.objects.exclude(status=NodeStatus.RETIRED).values_list(*columns))
    shut = [
        pk
        for pk, status, schedulable, blocks in nodes
        if status != NodeStatus.ONLINE or not schedulable or blocks
    ]
    in_service = Q(health=GpuHealth.OK)
    takes = ~Q(node_id__in=shut) & in_service & Q(busy="")
    listed = Gpu.objects.exclude(node__status=NodeStatus.RETIRED)
    found = listed.aggregate(gpus=Count("pk", filter=takes), out=Count("pk", filter=~in_service))
    usable = listed.filter(takes)
    held = Allocation.objects.filter(status__in=LIVE, slice__gpu__in=usable)
    taken = held.order_by().values("slice__gpu_id").distinct().count()
    mine = Allocation.objects.filter(slice=OuterRef("pk"), status__in=LIVE)
    ready = Slice.objects.filter(
        ~Exists(mine), gpu__in=usable, kind=SliceKind.MIG, status=SliceStatus.READY
    )
    return Free(len(nodes), found["gpus"], found["gpus"] - taken, ready.count(), found["out"])
