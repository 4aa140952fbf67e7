"""Starts jobs: locks the rows that their placements touch, checks each again on one ledger,
allocates."""

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from ipaddress import IPv4Network
from uuid import UUID

from django.conf import settings
from django.db import DataError, IntegrityError, transaction
from django.db.models import DateTimeField
from django.utils import timezone

from portal.allocations.services import GangOrder, gangs_allocate
from portal.arrays.room import CapRoom
from portal.audit.transitions import IllegalTransitionError, StaleStatusError, Transitions
from portal.database.kept_queries import KeptSelect, KeptUpdate, ListOf
from portal.desired.services import RENEWED_COLUMNS, documents_update
from portal.gang_networks.services import NetworkOrder, gang_networks_create, subnets_now
from portal.gang_networks.subnets import FreeSubnets
from portal.inventory.models import Gpu, Node, Slice
from portal.jobs.models import Attempt, Job, StartEstimate
from portal.live.bell import ring
from portal.planning.requests import waiting_jobs_from_rows
from portal.planning.snapshot import cluster_snapshot
from portal.preflights.orders import gangs_with_preflights
from portal.quotas.models import Quota
from scheduler.core.model.decisions import JobPlacement
from scheduler.core.model.snapshot import WaitingJob
from scheduler.core.model.states import JobStatus
from scheduler.core.placement.joined_replicas import joined_count, joined_placement
from scheduler.core.placement.ledger import Ledger
from scheduler.core.placement.legality import needs_network, reserve_if_legal
from scheduler.core.request.values import ContainerSharing

log = logging.getLogger(__name__)

# What one placement of a batch may meet, and must not cost the others.
REFUSALS = (IntegrityError, DataError, StaleStatusError, IllegalTransitionError)

_Placed = tuple[JobPlacement, GangOrder, IPv4Network | None]


def placements_commit(
    placements: Sequence[JobPlacement], bypassed: Collection[str] = ()
) -> list[JobPlacement]:
    """Give each of these gangs all of its devices, or nothing where the world changed meanwhile.
    Returns those that have theirs.

    All in one transaction, in as many statements for one as for many. If the database refuses that,
    each half has one of its own, down to a single placement: one that a constraint refuses costs no
    other its devices. `bypassed`: jobs that the last of these, the last one of its plan, went
    before. The documents of their nodes are part of it: a node hears of a gang with the commit, and
    nobody takes its row between the two.
    """
    try:
        with transaction.atomic():
            return _commit(placements, bypassed)
    except REFUSALS as error:
        if len(placements) == 1:
            log.warning(
                "the database refused the placement of job %s: %s", placements[0].job, error
            )
            return []
        log.warning("%d placements are committed in halves: %s", len(placements), error)
    half = len(placements) // 2
    first = placements_commit(placements[:half])
    return first + placements_commit(placements[half:], bypassed)


def _commit(placements: Sequence[JobPlacement], bypassed: Collection[str]) -> list[JobPlacement]:
    unlocked = _OWNERS.rows([placement.job for placement in placements])
    owners = {pk: (project, owner) for pk, project, owner in unlocked}
    if not owners:
        return []
    replicas = [replica for placement in placements for replica in placement.replicas]
    devices = [device for replica in replicas for device in replica.devices]
    quotas = Quota.objects.applying_to_any(owners.values()).lock_rows()
    nodes = _NODES.rows(list({UUID(replica.node) for replica in replicas}))
    gpus = _GPUS.rows(list({UUID(device.gpu) for device in devices}))
    slices = _SLICES.rows(list({UUID(device.slice) for device in devices if device.slice}))
    if bypassed:
        Job.objects.filter(pk__in={*owners, *map(int, bypassed)}).lock_keys()
    jobs = _QUEUED.rows(list(owners))
    # Read after the GPUs are locked: the intervals of two allocations of one device never overlap.
    now = timezone.now()
    placed = list(_legal(placements, jobs, nodes, now))
    if placed:
        gangs = gangs_with_preflights(
            [gang for _, gang, _ in placed],
            image=settings.PLATFORM.nccl_tests_image,
            hours=settings.PLATFORM.preflight_hours,
            now=now,
        )
        attempts = gangs_allocate(gangs=gangs, quotas=quotas, gpus=gpus, slices=slices, at=now)
        gang_networks_create(orders=list(_network_orders(placed, attempts)))
    started = [placement for placement, _, _ in placed]
    if started and started[-1] is placements[-1]:
        Job.objects.filter(pk__in=bypassed).count_bypass()
    jobs_place([(gang.job, placement) for placement, gang, _ in placed], now)
    gained = {UUID(replica.node) for placement in started for replica in placement.replicas}
    documents_update([node for node in nodes if node.pk in gained])
    return started


_OWNERS = KeptSelect(
    lambda jobs: (
        Job.objects.queued().filter(pk__in=jobs).values_list("pk", "project_id", "owner_id")
    ),
    ListOf(Job._meta.pk),
)
# In the order of their locks.
_NODES = KeptSelect(
    lambda nodes: Node.objects.filter(pk__in=nodes).only(*RENEWED_COLUMNS).locking(),
    ListOf(Node._meta.pk),
)
_GPUS = KeptSelect(lambda gpus: Gpu.objects.filter(pk__in=gpus).locking(), ListOf(Gpu._meta.pk))
_SLICES = KeptSelect(
    lambda slices: Slice.objects.filter(pk__in=slices).locking(), ListOf(Slice._meta.pk)
)
_QUEUED = KeptSelect(
    lambda jobs: (
        Job.objects.queued().filter(pk__in=jobs).select_related("project", "owner").locking()
    ),
    ListOf(Job._meta.pk),
)


def _legal(
    placements: Sequence[JobPlacement], jobs: list[Job], nodes: list[Node], now: datetime
) -> Iterator[_Placed]:
    """Those that the planner could decide now, on the locked rows, one after the other. With the
    subnet of a gang that needs one."""
    free = {str(job.pk): job for job in jobs if not job.hold_owner}
    room = CapRoom(free.values())
    waiting = {job.id: job for job in waiting_jobs_from_rows(list(free.values()))}
    ledger = Ledger(cluster_snapshot(now=now, nodes=[node.pk for node in nodes]))
    subnets: FreeSubnets | None = None
    for placement in placements:
        # Once each: a job has one attempt at a time.
        job = free.pop(placement.job, None)
        if job is None:
            continue
        own = waiting[placement.job]
        if own.after or own.begin_at > now.timestamp() or room.is_full(job):
            continue
        order = _gang_order(job, own, placement)
        mark = ledger.mark()
        if reason := reserve_if_legal(placement, own, ledger):
            log.info("placing %s is stale: %s: %s", job.label, reason.code, reason.sentence)
            continue
        subnet = None
        if needs_network(placement, ledger):
            subnets = subnets or subnets_now()
            subnet = subnets.take(len(order.replicas), turn=int(now.timestamp()))
            if subnet is None:
                ledger.rollback(mark)
                log.info("placing %s is stale: no addresses are free for its network", job.label)
                continue
        room.enter(job)
        yield placement, order, subnet


def _gang_order(job: Job, own: WaitingJob, placement: JobPlacement) -> GangOrder:
    """Replicas on one node share a container where they can, and where the request lets them."""
    joined, nodes = 1, [replica.node for replica in placement.replicas]
    if job.request.get("containers") != ContainerSharing.PER_REPLICA:
        joined = joined_count(replace(own, replicas=len(nodes)), nodes)
    return GangOrder(job, joined_placement(placement.replicas, joined), own.processes, joined)


def _network_orders(
    placed: Sequence[_Placed], attempts: Sequence[Attempt]
) -> Iterator[NetworkOrder]:
    for (placement, _, subnet), attempt in zip(placed, attempts, strict=True):
        if subnet is not None:
            nodes = frozenset(UUID(replica.node) for replica in placement.replicas)
            yield NetworkOrder(attempt, nodes, subnet)


_ESTIMATED = KeptUpdate(
    lambda jobs, now: StartEstimate.objects.filter(job__pk__in=jobs, started_at=None),
    lambda jobs, now: {"started_at": now},
    ListOf(Job._meta.pk),
    DateTimeField(),
)


def jobs_place(placed: Sequence[tuple[Job, JobPlacement]], now: datetime) -> None:
    """Advance jobs, locked by the caller, that have their devices; they wait for nothing more."""
    jobs, transitions = [job for job, _ in placed], Transitions()
    if jobs:
        _ESTIMATED.write([job.pk for job in jobs], now)
    noticed = [job for job in jobs if job.reason is not None or job.estimate is not None]
    Job.objects.filter(pk__in=[job.pk for job in noticed]).update(reason=None, estimate=None)
    for job, placement in placed:
        transitions.advance(
            job, JobStatus.PLACED, message=placement.message, position=None, reserved_at=None
        )
    transitions.write()
    for job in jobs:
        ring(f"job:{job.pk}")
    if jobs:
        ring("cluster")
