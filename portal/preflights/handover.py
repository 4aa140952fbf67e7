"""The devices of a check pass to the attempt that follows it: the job, or a check of its pairs.

In one transaction, on the same slices: between the two no planning pass can give them to anybody
else. Units of quotas stay as they are. Each node gets one document, without the old replicas and
with the new ones to prepare.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agents.contract.message import Message
from portal.allocations.models import Allocation
from portal.audit.codes import EventCode
from portal.audit.transitions import Transitions, event_record
from portal.database.intervals import SECOND
from portal.database.row_writes import rows_add
from portal.desired.services import RENEWED_COLUMNS, documents_update
from portal.gang_networks.selectors import network_of
from portal.gang_networks.services import NetworkOrder, gang_networks_create, subnets_now
from portal.inventory.models import Node
from portal.jobs.failure_causes import GangFailure
from portal.jobs.gang_faults import faulty_gang_stop
from portal.jobs.models import Attempt, DesiredState, Job, Replica, StopReason
from portal.jobs.preflights import HAS_RESULT
from portal.jobs.rollups import have_ended
from portal.live.bell import ring
from scheduler.core.model.states import AllocationStatus, JobStatus


def attempt_hand_over(
    *,
    attempt: Attempt,
    message: Message,
    has_result: bool,
    preflight: Mapping[str, Any] | None = None,
) -> bool:
    """End a check whose ranks have all ended, and start the attempt that it was for, with its
    devices. False if the job has gone another way meanwhile.

    `message`: what the check found, for the history of the job; `has_result`: whether that says
    anything of the network; `preflight`: of the attempt that follows, if that is another check.
    """
    with transaction.atomic():
        own = Replica.objects.filter(attempt=attempt.pk, node__isnull=False)
        on = Node.objects.filter(pk__in=own.values("node")).only(*RENEWED_COLUMNS)
        nodes = on.lock_rows()
        job = _prepared_job(attempt)
        replicas = Replica.objects.filter(attempt=attempt.pk).lock_rows()
        if job is None or not have_ended(replicas):
            return False
        held = Allocation.objects.filter(replica__attempt=attempt.pk).select_related("replica")
        devices = held.lock_rows()
        # Read after the locks: the intervals of two allocations of one slice never overlap.
        now = timezone.now()
        problem = _new_attempt(job, attempt, replicas, devices, now, preflight)
        if problem is not None:
            faulty_gang_stop(job=job, rank=replicas[0], code=GangFailure.NOT_READY, message=problem)
            return False
        written = (attempt.preflight or {}) | {HAS_RESULT: has_result}
        Attempt.objects.filter(pk=attempt.pk).update(preflight=written)
        event_record(job, EventCode.NETWORK_CHECKED, message)
        documents_update(nodes)
        revisions = {node.pk: node.revision for node in nodes}
        for node, revision in revisions.items():
            gone = Replica.objects.filter(attempt=attempt.pk, node=node)
            gone.update(desired_state=DesiredState.GONE, gone_revision=revision)
        ring(f"job:{job.pk}")
    return True


def _prepared_job(attempt: Attempt) -> Job | None:
    """Locked; None if the attempt has ended, or its job is stopped."""
    open_one = Attempt.objects.open().filter(pk=attempt.pk).values("job")
    rows = Job.objects.filter(pk__in=open_one, status=JobStatus.PREPARING)
    return next(iter(rows.select_related("project", "owner").lock_rows()), None)


def _new_attempt(
    job: Job,
    attempt: Attempt,
    replicas: Sequence[Replica],
    devices: Sequence[Allocation],
    now: datetime,
    preflight: Mapping[str, Any] | None,
) -> Message | None:
    """Why the devices cannot pass; then nothing is written."""
    in_use = (AllocationStatus.RESERVED, AllocationStatus.BOUND)
    if {row.replica_id for row in devices} != {row.pk for row in replicas} or any(
        row.status not in in_use for row in devices
    ):
        return Message("after the network check, a device of the gang was gone")
    subnet = None
    if network_of(attempt) is not None:
        subnet = subnets_now().take(len(replicas), turn=int(now.timestamp()))
        if subnet is None:
            return Message("after the network check, no addresses were free for the gang")
    _devices_release(devices, now)
    Attempt.objects.filter(pk=attempt.pk).update(ended_at=now, outcome=StopReason.SUCCEEDED)
    following = Attempt.objects.create(
        job=job,
        number=attempt.number + 1,
        egress=attempt.egress,
        replica_count=attempt.replica_count,
        joined_replicas=attempt.joined_replicas,
        preflight=preflight,
        created_at=now,
    )
    rows = {
        old.pk: Replica(
            attempt=following,
            rank=old.rank,
            node_id=old.node_id,
            desired_state=DesiredState.PREPARE,
        )
        for old in replicas
    }
    rows_add(Replica, list(rows.values()))
    rows_add(Allocation, [_same_device(row, rows[row.replica_id], now) for row in devices])
    if subnet is not None:
        nodes: frozenset[UUID] = frozenset(row.node_id for row in replicas if row.node_id)
        gang_networks_create(orders=[NetworkOrder(following, nodes, subnet)])
    return None


def _devices_release(devices: Sequence[Allocation], now: datetime) -> None:
    """Nothing is returned to quotas: the next attempt has as many."""
    transitions = Transitions()
    for row in devices:
        used = max(0, (now - row.bound_at) // SECOND) if row.bound_at else 0
        transitions.advance(
            row, AllocationStatus.RELEASED, at=now, released_at=now, used_seconds=used
        )
    transitions.write()


def _same_device(row: Allocation, replica: Replica, now: datetime) -> Allocation:
    return Allocation(
        replica=replica,
        slice_id=row.slice_id,
        project_id=row.project_id,
        user_id=row.user_id,
        units=row.units,
        cpu_milli=row.cpu_milli,
        memory_mib=row.memory_mib,
        reserved_at=now,
    )
