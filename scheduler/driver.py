"""Compiles a node's desired document from rows; a changed document gets a new revision."""

from collections import defaultdict
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Case, F, PositiveBigIntegerField, Q, When

from agents.contract.codec import encode
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
from portal.allocations.models import Allocation
from portal.allocations.selectors import allocated_replicas
from portal.inventory.models import Gpu, Node, Slice
from portal.jobs.lifecycle import seconds_left
from portal.jobs.models import DesiredState, Replica
from portal.live.bell import ring
from scheduler.core.model.states import SliceStatus
from scheduler.core.request import parse_stored_request

DESIRED_SLICES = [SliceStatus.PLANNED, SliceStatus.CREATING, SliceStatus.READY, SliceStatus.FAILED]


def drive(*, node_id: UUID) -> bool:
    """Write the node's desired document and ring its bell. False if nothing changed."""
    with transaction.atomic():
        rows = Node.objects.filter(pk=node_id).lock_rows()
        if not rows:
            return False
        (node,) = rows
        body = encode(compile_desired(node))
        if _same(body, node.desired):
            _note_revisions(node)
            if node.drive_due:
                Node.objects.filter(pk=node.pk).update(drive_due=False)
            return False
        node.revision += 1
        node.desired = body | {"revision": node.revision}
        node.drive_due = False
        node.save(update_fields=["revision", "desired", "drive_due"])
        _note_revisions(node)
        ring(f"node:{node.pk}")
        return True


def _note_revisions(node: Node) -> None:
    """Record the revision from which each replica is left out, or is to stop, once."""
    left_out = Q(desired_state=DesiredState.GONE)
    stopped = Q(desired_state=DesiredState.STOP, stop_revision__isnull=True)
    rows = Replica.objects.filter(left_out | stopped, node=node, gone_revision__isnull=True)
    rows.update(
        gone_revision=_where(left_out, node.revision, "gone_revision"),
        stop_revision=_where(stopped, node.revision, "stop_revision"),
    )


def _where(condition: Q, revision: int, column: str) -> Case:
    stored = F(column)
    return Case(
        When(condition, then=revision), default=stored, output_field=PositiveBigIntegerField()
    )


def compile_desired(node: Node) -> DesiredDocument:
    """The whole document, in a constant number of queries. Equal rows give equal documents: its
    order is fixed."""
    slices = Slice.objects.filter(gpu__node=node, kind=SliceKind.MIG, status__in=DESIRED_SLICES)
    return DesiredDocument(
        node=str(node.pk),
        revision=node.revision,
        gpus=tuple(_gpu(gpu) for gpu in node.gpus.order_by("uuid")),
        slices=tuple(_slice(s) for s in slices.select_related("gpu").order_by("id")),
        replicas=_replicas(node),
        allow_mass_removal=node.allow_mass_removal,
    )


def _same(body: dict[str, Any], stored: dict[str, Any]) -> bool:
    return body | {"revision": 0} == stored | {"revision": 0}


def _gpu(row: Gpu) -> DesiredGpu:
    return DesiredGpu(uuid=row.uuid, mode=GpuMode(row.desired_mode))


def _slice(row: Slice) -> DesiredSlice:
    return DesiredSlice(
        id=str(row.pk), gpu_uuid=row.gpu.uuid, profile=row.profile, start=row.start, size=row.size
    )


def _replicas(node: Node) -> tuple[DesiredReplica, ...]:
    rows = (
        allocated_replicas()
        .filter(node=node)
        .exclude(desired_state=DesiredState.GONE)
        .select_related("attempt__job__project", "attempt__job__owner")
        .order_by("id")
    )
    replicas = list(rows)
    devices = _devices(replicas)
    rendezvous = _rendezvous(
        [r.attempt_id for r in replicas if r.desired_state == DesiredState.RUN]
    )
    return tuple(_replica(r, devices[r.pk], rendezvous.get(r.attempt_id)) for r in replicas)


def _devices(replicas: list[Replica]) -> dict[UUID, list[Device]]:
    rows = Allocation.objects.live().filter(replica__in=replicas)
    devices: dict[UUID, list[Device]] = defaultdict(list)
    for row in rows.select_related("slice__gpu").order_by("slice__gpu__index", "slice__start"):
        devices[row.replica_id].append(_device(row))
    return devices


def _device(row: Allocation) -> Device:
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


def _rendezvous(attempts: list[int]) -> dict[int, Rendezvous]:
    """The rendezvous of each running attempt: what rank 0 offered when it was ready."""
    by_attempt: dict[int, list[Replica]] = defaultdict(list)
    for row in Replica.objects.filter(attempt_id__in=attempts).order_by("rank"):
        by_attempt[row.attempt_id].append(row)
    return {
        attempt: Rendezvous(
            address=rows[0].address,
            port=rows[0].port,
            peers=tuple(row.address for row in rows),
        )
        for attempt, rows in by_attempt.items()
        if rows[0].address and rows[0].port
    }


def _replica(row: Replica, devices: list[Device], rendezvous: Rendezvous | None) -> DesiredReplica:
    job = row.attempt.job
    request = parse_stored_request(job.request)
    return DesiredReplica(
        id=str(row.pk),
        job=str(job.uid),
        attempt=row.attempt.number,
        rank=row.rank,
        world=job.replica_count,
        fence=row.attempt.fence,
        wish=DesiredReplicaState(row.desired_state),
        project=job.project.slug,
        user=job.owner.username,
        name=job.name,
        image=job.image,
        command=tuple(request.command),
        launcher=request.launcher,
        env=dict(request.env),
        cpu_milli=job.cpu_milli,
        memory_mib=job.memory_mib,
        shm_mib=request.shm_mib,
        devices=tuple(devices),
        processes=request.processes,
        backend=request.backend,
        grace_seconds=request.grace_seconds,
        time_limit_seconds=seconds_left(job),
        rendezvous=rendezvous,
        disk_mib=job.disk_mib,
    )
