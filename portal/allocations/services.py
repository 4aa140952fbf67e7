"""Allocations: reserved for a gang, bound when its replicas run, released after they are gone.

A device is free only after its node has reported that the container is gone.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Count, OuterRef, PositiveBigIntegerField
from django.utils import timezone

from agents.contract.documents import SliceKind
from portal.allocations.models import Allocation
from portal.allocations.querysets import AllocationQuerySet
from portal.allocations.slices import SliceOrder, slices_create
from portal.audit.transitions import (
    IllegalTransitionError,
    StaleStatusError,
    Transitions,
    advance,
)
from portal.database.intervals import SECOND
from portal.database.kept_queries import KeptSelect, ListOf
from portal.database.row_writes import rows_add
from portal.inventory.boards import quota_model_names
from portal.inventory.models import Gpu, Node, Slice, SliceQuerySet
from portal.inventory.reports import slices_delete
from portal.jobs.models import Attempt, DesiredState, Job, Replica
from portal.quotas.models import Quota
from portal.quotas.services import quotas_return, quotas_take
from scheduler.core.model.decisions import DevicePlacement, ReplicaPlacement
from scheduler.core.model.states import AllocationStatus

log = logging.getLogger(__name__)

# Allocations released in one transaction: some hundred milliseconds, so that no page waits long for
# the rows of its quota.
RELEASED_TOGETHER = 500
# What keeps one allocation from its release, and must not keep the others.
RELEASE_ERRORS = (IntegrityError, StaleStatusError, IllegalTransitionError)


@dataclass(frozen=True, slots=True)
class GangOrder:
    """The devices that a job is to get on Tessera's own nodes."""

    job: Job
    replicas: tuple[ReplicaPlacement, ...]
    """Its containers."""
    processes: int
    """Of each replica: the clients of its MPS shares."""
    joined_replicas: int = 1
    """How many of the job's replicas each container runs."""
    preflight: Mapping[str, Any] | None = None
    """What the attempt runs in place of the job, to check the network of the gang, as
    `portal.jobs.preflights` stores it; None to run the job."""

    @property
    def replica_count(self) -> int:
        """How many replicas of the job are placed."""
        return len(self.replicas) * self.joined_replicas


def gangs_allocate(
    *,
    gangs: Sequence[GangOrder],
    quotas: Iterable[Quota],
    gpus: Iterable[Gpu],
    slices: Iterable[Slice],
    at: datetime,
) -> list[Attempt]:
    """Start an attempt of each job: its replicas, their reserved devices, and the units taken from
    quotas, in as many statements for one as for many. Returns the attempts in this order.

    All rows are locked by the caller. Raises IntegrityError where a device or a quota is taken
    meanwhile.
    """
    gpu_by_id = {str(gpu.pk): gpu for gpu in gpus}
    attempts = _attempts_create(gangs, at)
    replicas = [
        (gang, placed, _replica(attempt, placed, is_gang=len(gang.replicas) > 1))
        for gang, attempt in zip(gangs, attempts, strict=True)
        for placed in gang.replicas
    ]
    rows_add(Replica, [row for _, _, row in replicas])
    devices = [
        (gang, row, index, device)
        for gang, placed, row in replicas
        for index, device in enumerate(placed.devices)
    ]
    own = _slices([(gang, device) for gang, _, _, device in devices], gpu_by_id, slices)
    rows = [
        Allocation(
            replica=row,
            slice=own_slice,
            project=gang.job.project,
            user=gang.job.owner,
            units=device.units,
            # The first device of a container carries all of its CPU and memory.
            cpu_milli=0 if index else gang.job.cpu_milli * gang.joined_replicas,
            memory_mib=0 if index else gang.job.memory_mib * gang.joined_replicas,
            reserved_at=at,
        )
        for (gang, row, index, device), own_slice in zip(devices, own, strict=True)
    ]
    rows_add(Allocation, rows)
    # A CHECK constraint refuses what the planner should have refused.
    by_slice = {own_slice.pk: gpu_by_id[str(own_slice.gpu_id)] for own_slice in own}
    quotas_take(_units_by_quota(quotas, rows, by_slice))
    return attempts


def _replica(attempt: Attempt, placed: ReplicaPlacement, *, is_gang: bool) -> Replica:
    # A gang of one has no barrier: its node starts it as soon as it is ready.
    desired = DesiredState.PREPARE if is_gang else DesiredState.RUN
    node = UUID(placed.node)
    return Replica(attempt=attempt, rank=placed.rank, node_id=node, desired_state=desired)


def _slices(
    devices: Sequence[tuple[GangOrder, DevicePlacement]],
    gpu_by_id: Mapping[str, Gpu],
    idle: Iterable[Slice],
) -> list[Slice]:
    """The slice of each device: the idle one that it names, or a new one."""
    idle_by_id = {str(row.pk): row for row in idle}
    orders = [
        SliceOrder(gpu_by_id[device.gpu], device, gang.job.project, gang.processes)
        for gang, device in devices
        if device.slice not in idle_by_id
    ]
    made = iter(slices_create(orders))
    return [idle_by_id.get(device.slice) or next(made) for _, device in devices]


def _attempts_create(gangs: Sequence[GangOrder], at: datetime) -> list[Attempt]:
    counts: dict[int, int] = dict(_EARLIER.rows([gang.job.pk for gang in gangs]))
    return Attempt.objects.bulk_create(
        [
            Attempt(
                job=gang.job,
                number=counts.get(gang.job.pk, 0) + 1,
                egress=gang.job.project.egress,
                replica_count=gang.replica_count,
                joined_replicas=gang.joined_replicas,
                preflight=gang.preflight,
                created_at=at,
            )
            for gang in gangs
        ]
    )


# By job, how many attempts it had.
_EARLIER: KeptSelect[Any] = KeptSelect(
    lambda jobs: (
        Attempt.objects.filter(job__pk__in=jobs).order_by().values_list("job").annotate(Count("pk"))
    ),
    ListOf(Job._meta.pk),
)


def gang_reserve(
    *, job: Job, site: str, board: str, units: int, quotas: Iterable[Quota], at: datetime
) -> Attempt:
    """Start an attempt at a site that keeps its nodes and devices to itself: every replica has
    `units` of a board there, taken from quotas.

    Job and quotas are locked by the caller. Raises IntegrityError where a quota is taken meanwhile.
    """
    attempt = Attempt.objects.create(
        job=job,
        site=site,
        number=job.attempts.count() + 1,
        replica_count=job.replica_count,
        created_at=at,
    )
    rows = []
    for rank in range(attempt.world):
        # The site starts a gang together: there is no barrier here.
        replica = Replica.objects.create(attempt=attempt, rank=rank, desired_state=DesiredState.RUN)
        row = Allocation.objects.create(
            replica=replica,
            board=board,
            project=job.project,
            user=job.owner,
            units=units,
            cpu_milli=job.cpu_milli,
            memory_mib=job.memory_mib,
            reserved_at=at,
        )
        rows.append(row)
    quotas_take(_units_by_quota(quotas, rows, {}))
    return attempt


def allocations_bind(
    *, replicas: Iterable[Replica], transitions: Transitions, at: datetime
) -> None:
    """The replicas have their devices: their time counts from `at`. Gathered in `transitions`."""
    by_id = {replica.pk: replica for replica in replicas}
    for row in _RESERVED.rows(list(by_id)):
        row.replica = by_id[row.replica_id]
        transitions.advance(row, AllocationStatus.BOUND, at=at, bound_at=at)


def is_release_due(*, node: Node) -> bool:
    """Whether replicas that the node was to remove still have allocations."""
    return bool(_REMOVAL_DUE.rows(node.pk, node.applied_revision))


def allocations_mark_releasing(*, node: Node, listed: set[str]) -> bool:
    """Mark the allocations of replicas that the node was to remove and no longer lists."""
    rows = _TO_BE_REMOVED.rows(node.pk, node.applied_revision)
    gone = [row for row in rows if str(row.replica_id) not in listed]
    transitions = Transitions()
    for row in gone:
        transitions.advance(row, AllocationStatus.RELEASING)
    transitions.write()
    return bool(gone)


def attempt_allocations_mark_releasing(*, attempt: Attempt) -> bool:
    """Mark the allocations of an ended attempt of which its site has nothing left. Returns whether
    there were any."""
    with transaction.atomic():
        rows = Allocation.objects.in_use().filter(replica__attempt=attempt)
        in_use = rows.select_related("replica__attempt").lock_rows()
        for row in in_use:
            advance(row, AllocationStatus.RELEASING)
    return bool(in_use)


def to_be_removed(node: UUID | OuterRef, applied_revision: int) -> AllocationQuerySet[Allocation]:
    """Allocations in use of replicas that the node was to remove by the revision it has applied.
    `node`: its key."""
    return Allocation.objects.in_use().filter(
        replica__node=node,
        replica__desired_state=DesiredState.GONE,
        replica__gone_revision__lte=applied_revision,
    )


_RESERVED = KeptSelect(
    lambda replicas: Allocation.objects.filter(
        replica__pk__in=replicas, status=AllocationStatus.RESERVED
    ).locking(),
    ListOf(Replica._meta.pk),
)
_REMOVED_BY = (Node._meta.pk, PositiveBigIntegerField())
_REMOVAL_DUE = KeptSelect(
    lambda node, applied: to_be_removed(node, applied).values_list("pk", flat=True)[:1],
    *_REMOVED_BY,
)
_TO_BE_REMOVED = KeptSelect(
    lambda node, applied: to_be_removed(node, applied).select_related("replica__attempt").locking(),
    *_REMOVED_BY,
)


def allocations_release(*, limit: int = RELEASED_TOGETHER) -> int:
    """Release what is marked, in one transaction: return quota, delete whole-GPU rows and shares,
    keep MIG slices. Returns the number of allocations; call again if there were `limit`.

    Where one of them cannot be released, the others are, one by one. Only the planner's pass calls
    this: rows of quotas have no other writer but placements, made in the same pass.
    """
    ids = _MARKED_KEYS.rows()[:limit]
    try:
        return _release(ids)
    except RELEASE_ERRORS as error:
        log.warning("%d allocations are released one by one: %s", len(ids), error)
    return sum(_release_alone(pk) for pk in ids)


def _release_alone(pk: UUID) -> int:
    try:
        return _release([pk])
    except RELEASE_ERRORS:
        log.exception("allocation %s cannot be released", pk)
        return 0


def _release(ids: Collection[UUID]) -> int:
    """The clock is read after the GPUs are locked: the intervals of two allocations of one slice
    never overlap."""
    if not ids:
        return 0
    with transaction.atomic():
        unlocked = Allocation.objects.filter(pk__in=ids)
        owners = list(unlocked.order_by().values_list("project", "user").distinct())
        quotas = Quota.objects.applying_to_any(owners).lock_rows()
        _HELD_GPUS.rows(list(ids))
        slices = _HELD_SLICES.rows(list(ids))
        rows = _MARKED.rows(list(ids))
        now, transitions = timezone.now(), Transitions()
        for row in rows:
            used = max(0, (now - row.bound_at) // SECOND) if row.bound_at else 0
            transitions.advance(
                row, AllocationStatus.RELEASED, at=now, released_at=now, used_seconds=used
            )
        by_id = {device.pk: device for device in slices}
        devices = [by_id[row.slice_id] for row in rows if row.slice_id]
        quotas_return(_units_by_quota(quotas, rows, {d.pk: d.gpu for d in devices}))
        slices_delete([d for d in devices if d.kind != SliceKind.MIG], transitions)
        return len(rows)


def _held(allocations: Any) -> SliceQuerySet:
    # By the allocations' own key: a slot stands for a value of that field.
    return Slice.objects.filter(allocations__pk__in=allocations)


_MARKED_KEYS = KeptSelect(
    lambda: (
        Allocation.objects.filter(status=AllocationStatus.RELEASING)
        .order_by("pk")
        .values_list("pk", flat=True)[:RELEASED_TOGETHER]
    )
)
# In the order of their locks.
_HELD_GPUS = KeptSelect(
    lambda ids: Gpu.objects.filter(pk__in=_held(ids).values("gpu")).only("pk").locking(),
    ListOf(Allocation._meta.pk),
)
_HELD_SLICES = KeptSelect(
    lambda ids: _held(ids).select_related("gpu").locking(), ListOf(Allocation._meta.pk)
)
_MARKED = KeptSelect(
    lambda ids: (
        Allocation.objects.filter(pk__in=ids, status=AllocationStatus.RELEASING)
        .select_related("replica__attempt")
        .locking()
    ),
    ListOf(Allocation._meta.pk),
)


def _units_by_quota(
    quotas: Iterable[Quota], rows: Iterable[Allocation], gpus: Mapping[UUID, Gpu]
) -> dict[int, int]:
    """How many units of these allocations each quota counts. `gpus`: by slice."""
    of_owner: dict[tuple[int, int | None], list[Quota]] = defaultdict(list)
    for quota in quotas:
        of_owner[quota.project_id, quota.user_id].append(quota)
    units: dict[int, int] = defaultdict(int)
    for row in rows:
        models = quota_model_names(gpus[row.slice_id]) if row.slice_id else row.quota_models
        for user_id in (None, row.user_id):
            for quota in of_owner[row.project_id, user_id]:
                if quota.model in models:
                    units[quota.pk] += row.units
    return units
