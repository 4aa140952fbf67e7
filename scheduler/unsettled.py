"""Which nodes a sweep looks at: those whose desired document may lag behind the rows because a bell
was lost, and a few others in turn; and those that may not have heard of their document."""

from uuid import UUID

from django.db.models import F, Q

from agents.contract.documents import SliceKind
from portal.allocations.selectors import allocated_replicas
from portal.inventory.models import Gpu, Node, Slice
from portal.jobs.models import DesiredState
from portal.leases.services import continuation_read, continuation_write
from portal.task_queues import SWEEP_SECONDS
from scheduler.core.model.states import NodeStatus, ReplicaStatus, SliceStatus

# Every node is looked at once in this time, if every sweep that is rung is done.
ROUND_SECONDS = 300.0
SWEEPS_A_ROUND = round(ROUND_SECONDS / SWEEP_SECONDS)
# Where the round has come to is kept beside the leases, under this name.
ROUND = "drive"

# A change of the document leaves one of these traces until the node has been driven, or has
# reported that it carried the change out. Changes without a trace of their own set
# `Node.drive_due` in their transaction.
REPLICAS_IN_MOTION = (
    Q(status__in=[ReplicaStatus.PENDING, ReplicaStatus.PREPARING, ReplicaStatus.READY])
    | Q(desired_state=DesiredState.STOP, stop_revision=None)
    | Q(desired_state=DesiredState.GONE, gone_revision=None)
)
SLICES_IN_MOTION = [SliceStatus.PLANNED, SliceStatus.CREATING, SliceStatus.DELETING]


def unsettled_nodes() -> set[UUID]:
    """Active nodes with something that they may not have been told. One query."""
    replicas = allocated_replicas().filter(REPLICAS_IN_MOTION, node__isnull=False)
    slices = Slice.objects.filter(kind=SliceKind.MIG, status__in=SLICES_IN_MOTION)
    gpus = Gpu.objects.exclude(desired_mode=F("observed_mode"))
    rows = Node.objects.active().filter(
        Q(drive_due=True)
        | Q(revision=0)
        | Q(pk__in=replicas.values("node_id"))
        | Q(pk__in=slices.values("gpu__node_id"))
        | Q(pk__in=gpus.values("node_id"))
    )
    return set(rows.order_by().values_list("pk", flat=True))


def unheard_nodes() -> set[UUID]:
    """Online nodes that have not applied their document yet. Most are at it; of the others, the
    bell was lost: that of a worker which died between the commit and the ring, for example. A
    silent node has no call open, and is told by its next one."""
    rows = Node.objects.filter(status=NodeStatus.ONLINE, applied_revision__lt=F("revision"))
    return set(rows.order_by().values_list("pk", flat=True))


def nodes_in_turn() -> set[UUID]:
    """The next nodes of the round; the caller drives them. A missed sweep leaves none out."""
    active = Node.objects.active().order_by("pk")
    after = continuation_read(ROUND)
    count = -(-active.count() // SWEEPS_A_ROUND)
    rest = active.filter(pk__gt=UUID(after)) if after else active
    nodes = list(rest.values_list("pk", flat=True)[:count])
    continuation_write(ROUND, str(nodes[-1]) if len(nodes) == count and nodes else None)
    return set(nodes)
