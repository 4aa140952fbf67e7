"""Write a node's observed document into rows."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agents.contract.codec import encode
from agents.contract.documents import ObservedDocument, ObservedReplica
from portal.allocations.services import (
    allocations_bind,
    allocations_mark_releasing,
    allocations_release,
)
from portal.audit.transitions import advance
from portal.inventory.models import Node
from portal.inventory.reports import gpu_reports_apply, slice_reports_apply
from portal.jobs.lifecycle import job_rollup
from portal.jobs.models import Replica
from portal.live.bell import ring, ring_plan
from scheduler.core.model.states import REPLICA_EDGES, ReplicaStatus, is_allowed

# Facts that decide which jobs a node may get.
ELIGIBILITY = ("launchers", "share_clients", "blocks")


def node_report(
    node_id: UUID, observed: ObservedDocument, applied_revision: int | None = None
) -> None:
    """Apply a whole observed document. Repeats are harmless.

    Absence means something only for replicas that the node was to remove. `applied_revision`: the
    revision that the node had applied when it observed this; by default the last one it reported.
    """
    with transaction.atomic():
        (node,) = Node.objects.filter(pk=node_id).lock_rows()
        changed = _facts_report(node, observed)
        changed |= gpu_reports_apply(node, observed)
        changed |= slice_reports_apply(node, observed)
        applied = node.applied_revision if applied_revision is None else applied_revision
        jobs = _replicas_report(node, observed, applied)
        changed |= allocations_mark_releasing(node=node, listed={r.id for r in observed.replicas})
        ring("cluster")
    for job_id in sorted(jobs):
        job_rollup(job_id=job_id)
    if allocations_release() or changed:
        ring_plan()


def _facts_report(node: Node, observed: ObservedDocument) -> bool:
    """True if other jobs may be placed on the node than before."""
    facts, before = observed.facts, node.facts
    node.facts = {
        "runtime": str(facts.runtime),
        "runtime_version": facts.runtime_version,
        "driver_version": facts.driver_version,
        "nvml_version": facts.nvml_version,
        "cuda_version": facts.cuda_version,
        "simulated": facts.simulated,
        "agent_version": facts.agent_version,
        "launchers": list(facts.launchers),
        "share_clients": facts.share_clients,
        "disk_free_mib": facts.disk_free_mib,
        "problems": list(facts.problems),
        "blocks": list(facts.blocks),
        "slice_problems": [
            {"gpu": p.gpu_uuid, "code": p.code, "sentence": p.sentence} for p in observed.problems
        ],
    }
    node.topology = encode(observed.topology)
    node.fabric = facts.fabric
    node.cpu_milli = facts.cpu_milli
    node.memory_mib = facts.memory_mib
    node.disk_mib = facts.disk_mib
    node.save(update_fields=["facts", "topology", "fabric", "cpu_milli", "memory_mib", "disk_mib"])
    return any(before.get(name) != node.facts[name] for name in ELIGIBILITY)


def _replicas_report(node: Node, observed: ObservedDocument, applied: int) -> set[int]:
    """Advance each reported replica. The jobs whose replicas moved."""
    reported = {r.id: r for r in observed.replicas}
    rows = (
        Replica.objects.filter(node=node, pk__in=_uuids(reported))
        .select_related("attempt__job")
        .lock_rows()
    )
    return {
        row.attempt.job_id for row in rows if _replica_report(row, reported[str(row.pk)], applied)
    }


def _uuids(ids: Iterable[str]) -> list[UUID]:
    """The ids that can be ours; others are ignored."""
    uuids = []
    for text in ids:
        try:
            uuids.append(UUID(text))
        except ValueError:
            continue
    return uuids


def _replica_report(row: Replica, reported: ObservedReplica, applied: int) -> bool:
    """True if the replica moved. Another fence says nothing about this attempt."""
    if reported.fence != row.attempt.fence:
        return False
    old, new = ReplicaStatus(row.status), ReplicaStatus(str(reported.state))
    if old is new or not is_allowed(REPLICA_EDGES, old, new):
        return False
    now = timezone.now()
    advance(
        row,
        new,
        actor=f"node:{row.node.name}",
        code=reported.code,
        sentence=reported.sentence,
        at=now,
        **_columns(row, reported, new, applied),
    )
    if new in (ReplicaStatus.READY, ReplicaStatus.RUNNING):
        allocations_bind(replica=row, at=now)
    return True


def _columns(
    row: Replica, reported: ObservedReplica, new: ReplicaStatus, applied: int
) -> dict[str, Any]:
    """The columns that change with the status. Times are ours: a node's clock is advisory."""
    now = timezone.now()
    columns: dict[str, Any] = {"container": reported.container}
    if reported.address:
        columns |= {"address": reported.address, "port": reported.port}
    if new is ReplicaStatus.READY:
        columns["ready_at"] = now
    if new is ReplicaStatus.RUNNING or (new is ReplicaStatus.EXITED and row.started_at is None):
        columns["started_at"] = now
    if new is ReplicaStatus.EXITED:
        columns["ended_unasked"] = row.stop_revision is None or applied < row.stop_revision
    if new in (ReplicaStatus.EXITED, ReplicaStatus.FAILED, ReplicaStatus.LOST):
        columns |= {
            "finished_at": now,
            "exit_code": reported.exit_code,
            "memory_kill": reported.memory_kill,
        }
    return columns
