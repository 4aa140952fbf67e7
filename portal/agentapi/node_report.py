"""What a node says it is and has, written into rows. Judges nothing beyond the tables' edges."""

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
from portal.database.locks import lock_rows
from portal.inventory.models import Node
from portal.inventory.reports import gpu_reports_apply, slice_reports_apply
from portal.jobs.lifecycle import job_rollup
from portal.jobs.models import Replica
from portal.live.bell import ring, ring_plan
from scheduler.core.model.states import REPLICA_EDGES, ReplicaStatus, is_allowed


def node_report(
    node_id: UUID, observed: ObservedDocument, applied_revision: int | None = None
) -> None:
    """Take a node's whole observed document. Repeats are harmless; nothing is assumed from absence
    except what the node has been told to remove. `applied_revision`: what the node had taken when
    it said this; by default what it said last."""
    with transaction.atomic():
        (node,) = lock_rows(Node.objects.filter(pk=node_id))
        _facts_report(node, observed)
        changed = gpu_reports_apply(node, observed)
        changed |= slice_reports_apply(node, observed)
        taken = node.applied_revision if applied_revision is None else applied_revision
        jobs = _replicas_report(node, observed, taken)
        changed |= allocations_mark_releasing(node=node, listed={r.id for r in observed.replicas})
        ring("cluster")
    for job_id in sorted(jobs):
        job_rollup(job_id=job_id)
    if allocations_release() or changed:
        ring_plan()


def _facts_report(node: Node, observed: ObservedDocument) -> None:
    facts = observed.facts
    node.facts = {
        "runtime": str(facts.runtime),
        "runtime_version": facts.runtime_version,
        "driver_version": facts.driver_version,
        "nvml_version": facts.nvml_version,
        "cuda_version": facts.cuda_version,
        "simulated": facts.simulated,
        "agent_version": facts.agent_version,
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


def _replicas_report(node: Node, observed: ObservedDocument, taken: int) -> set[int]:
    """Advance each replica that the node speaks of; the jobs whose replicas moved."""
    said = {r.id: r for r in observed.replicas}
    rows = lock_rows(
        Replica.objects.filter(node=node, pk__in=_uuids(said)).select_related("attempt__job")
    )
    return {row.attempt.job_id for row in rows if _replica_report(row, said[str(row.pk)], taken)}


def _uuids(ids: Iterable[str]) -> list[UUID]:
    """The ids that can be ours. A node may only speak of replicas it was told of."""
    found = []
    for text in ids:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return found


def _replica_report(row: Replica, said: ObservedReplica, taken: int) -> bool:
    """True when the replica moved. A lower or foreign fence says nothing about this attempt."""
    if said.fence != row.attempt.fence:
        return False
    old, new = ReplicaStatus(row.status), ReplicaStatus(str(said.state))
    if old is new or not is_allowed(REPLICA_EDGES, old, new):
        return False
    now = timezone.now()
    advance(
        row,
        new,
        actor=f"node:{row.node.name}",
        code=said.code,
        sentence=said.sentence,
        at=now,
        **_columns(row, said, new, taken),
    )
    if new in (ReplicaStatus.READY, ReplicaStatus.RUNNING):
        allocations_bind(replica=row, at=now)
    return True


def _columns(row: Replica, said: ObservedReplica, new: ReplicaStatus, taken: int) -> dict[str, Any]:
    """What changes with the step. Times are ours: a node's clock is advisory."""
    now = timezone.now()
    columns: dict[str, Any] = {"container": said.container}
    if said.address:
        columns |= {"address": said.address, "port": said.port}
    if new is ReplicaStatus.READY:
        columns["ready_at"] = now
    if new is ReplicaStatus.RUNNING or (new is ReplicaStatus.EXITED and row.started_at is None):
        columns["started_at"] = now
    if new is ReplicaStatus.EXITED:
        columns["ended_unasked"] = row.stop_revision is None or taken < row.stop_revision
    if new in (ReplicaStatus.EXITED, ReplicaStatus.FAILED, ReplicaStatus.LOST):
        columns |= {
            "finished_at": now,
            "exit_code": said.exit_code,
            "memory_kill": said.memory_kill,
        }
    return columns
