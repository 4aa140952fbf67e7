"""Changes partitions without a job: merges to make room, carves ahead of need."""

import logging

from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.contract.documents import SliceKind
from agents.contract.geometry import Placement
from agents.contract.message import Message
from portal.allocations.slices import SliceOrder, next_settle_time, slices_create
from portal.audit.codes import EventCode
from portal.audit.transitions import advance, event_record
from portal.inventory.models import Gpu, Node, Slice
from portal.live.bell import ring
from portal.planning.snapshot import cluster_snapshot
from scheduler.core.model.decisions import Carve, DevicePlacement, Merge
from scheduler.core.model.states import SliceStatus
from scheduler.core.placement.ledger import Ledger

log = logging.getLogger(__name__)


def merge_commit(merge: Merge) -> bool:
    """Begin to delete idle slices, all of them or none. Their places are free once the node has
    deleted them."""
    with transaction.atomic():
        gpu = next(iter(Gpu.objects.filter(pk=merge.gpu).lock_rows()), None)
        idle_slices = Slice.objects.idle().filter(pk__in=merge.slices)
        idle = idle_slices.select_related("gpu").lock_rows()
        if gpu is None or gpu.pinned or len(idle) != len(merge.slices):
            return False
        message = merge.message or Message("for job %(job)s", job=merge.for_job)
        for row in idle:
            advance(row, SliceStatus.DELETING, code=EventCode.MERGE, message=message)
        Gpu.objects.filter(pk=gpu.pk).update(settles_at=next_settle_time())
        ring("cluster")
        return True


def carve_commit(carve: Carve) -> bool:
    """Make an idle slice. False if its place is no longer free, or an admin pinned the GPU."""
    try:
        with transaction.atomic():
            return _carve(carve)
    except IntegrityError as error:
        log.warning("the database refused a carve on GPU %s: %s", carve.gpu, error)
        return False


def _carve(carve: Carve) -> bool:
    node_id = Gpu.objects.filter(pk=carve.gpu).values_list("node_id", flat=True).first()
    if node_id is None:
        return False
    Node.objects.filter(pk=node_id).lock_rows()
    (gpu,) = Gpu.objects.filter(pk=carve.gpu).lock_rows()
    # The same rules as for a job's own slice, on the rows of now.
    snapshot = cluster_snapshot(now=timezone.now(), nodes=[node_id])
    space = Ledger(snapshot).gpus.get(carve.gpu)
    if gpu.pinned or space is None or not space.view.healthy or not snapshot.nodes[0].available:
        return False
    profile = space.board.profile(carve.profile)
    place = Placement(carve.start, carve.size, carve.profile)
    if profile is None or not space.may_carve() or place not in space.free_starts(profile.name):
        return False
    device = DevicePlacement(
        gpu=carve.gpu,
        kind=SliceKind.MIG,
        profile=carve.profile,
        start=carve.start,
        size=carve.size,
        units=space.board.units(profile),
        memory_mib=profile.memory_mib,
    )
    slices_create([SliceOrder(gpu, device)])
    message = carve.message or Message(
        "%(profile)s at %(start)s, ahead of need", profile=carve.profile, start=carve.start
    )
    event_record(gpu, EventCode.CARVE, message)
    ring("cluster")
    return True
