"""Write a node's observed document into rows."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agents.contract.codec import encode
from agents.contract.documents import DesiredDocument, ObservedDocument, read_desired
from agents.contract.message import Message
from agents.contract.volumes import offered_access
from agents.contract.wire_messages import from_wire
from portal.agentapi.image_needs import image_needs_report
from portal.agentapi.notebooks import notebooks_report
from portal.allocations.holding import holding_compare
from portal.allocations.services import allocations_mark_releasing
from portal.audit.codes import EventCode
from portal.desired.services import DOCUMENT_COLUMNS, documents_renew
from portal.gang_networks.joining import node_joining
from portal.gang_networks.selectors import gang_neighbours
from portal.inventory.models import Node
from portal.inventory.reports import gpu_reports_apply, slice_reports_apply
from portal.jobs.models import Replica
from portal.live.bell import gather_rings, ring, ring_drive, ring_plan
from portal.sites.observations import Observation, observations_apply
from scheduler.core.model.states import ReplicaStatus

# Facts that decide which jobs a node may get.
ELIGIBILITY = (
    *("launchers", "share_clients", "blocks", "volume_roots", "rdma"),
    *("cuda_version", "driver_version", "architecture"),
    *("overlay", "git_hosts", "limits_egress"),
)
# Facts that the documents of other nodes of its gangs depend on.
GANG_FACTS = ("address", "overlay", "rdma")


def node_report(
    node_id: UUID, observed: ObservedDocument, applied_revision: int | None = None
) -> DesiredDocument | None:
    """Apply a whole observed document. Repeats are harmless, and write nothing.

    Absence means something only for replicas that the node was to remove. `applied_revision`: the
    revision that the node had applied when it observed this; by default the last one it reported.
    Returns the node's desired document if it changed by this.
    """
    with transaction.atomic():
        (node,) = Node.objects.filter(pk=node_id).lock_rows()
        applied = node.applied_revision if applied_revision is None else applied_revision
        document, columns = report_apply(node, observed, applied_revision=applied)
        if columns:
            node.save(update_fields=columns)
    return document


def report_apply(
    node: Node, observed: ObservedDocument, *, applied_revision: int
) -> tuple[DesiredDocument | None, list[str]]:
    """`node_report` for a caller that has locked the node, and saves the returned columns.

    The document is compiled in the transaction of the report, so that the answer carries it: no
    bell, no task and no further call has to come in between. Nodes that have other ranks of a gang
    are rung.
    """
    with gather_rings(driven=node.pk) as rings:
        columns, changed = _facts_report(node, observed)
        changed |= gpu_reports_apply(node, observed)
        changed |= slice_reports_apply(node, observed)
        ended = holding_compare(node, observed, applied_revision=applied_revision)
        # A revision of a node that is ahead of us is not the one of the same number here.
        applied = 0 if node.is_document_withheld else applied_revision
        image_needs_report(node, observed, timezone.now())
        notebooks_report(node, observed, timezone.now())
        seen = chain(_observations(observed, applied), _ended_unseen(node, ended))
        result = observations_apply(seen, node=node, actor=f"node:{node.name}")
        changed |= allocations_mark_releasing(node=node, listed={r.id for r in observed.replicas})
        if changed:
            ring_plan()
        ring("cluster")
        if not (rings.is_drive_due or node.drive_due):
            return None, columns
        if node.pk in documents_renew([node], locked=result.locked):
            return read_desired(node.desired), [*columns, *DOCUMENT_COLUMNS]
    return None, [*columns, "drive_due"]


def _facts_report(node: Node, observed: ObservedDocument) -> tuple[list[str], bool]:
    """Set what differs. Returns these columns, and whether other jobs may be placed on the node
    than before."""
    before = node.facts
    joining = node_joining(node, observed.facts)
    columns = _facts_columns(observed)
    columns |= {"facts": columns["facts"] | joining.facts, "fabric": joining.fabric}
    changed = {name: value for name, value in columns.items() if getattr(node, name) != value}
    for name, value in changed.items():
        setattr(node, name, value)
    if any(before.get(name) != node.facts.get(name) for name in GANG_FACTS):
        _neighbours_drive(node)
    return list(changed), any(before.get(name) != node.facts.get(name) for name in ELIGIBILITY)


def _neighbours_drive(node: Node) -> None:
    """Have the documents of nodes with ranks of its gangs compiled, its own among them: they say
    how it is reached, and whether the gang uses RDMA."""
    if neighbours := gang_neighbours(node.pk):
        Node.objects.filter(pk=node.pk).update(facts=node.facts)
        ring_drive(neighbours)


def _facts_columns(observed: ObservedDocument) -> dict[str, Any]:
    facts = observed.facts
    seen = {
        "runtime": str(facts.runtime),
        "runtime_version": facts.runtime_version,
        "driver_version": facts.driver_version,
        "nvml_version": facts.nvml_version,
        "cuda_version": facts.cuda_version,
        "architecture": facts.architecture,
        "simulated": facts.simulated,
        "agent_version": facts.agent_version,
        "launchers": list(facts.launchers),
        "share_clients": facts.share_clients,
        "disk_free_mib": facts.disk_free_mib,
        "on_lease_end": facts.on_lease_end,
        "pins_images": facts.pins_images,
        "limits_egress": facts.limits_egress,
        "has_profiler": facts.has_profiler,
        "problems": list(facts.problems),
        "blocks": list(facts.blocks),
        "slice_problems": [
            {"gpu": p.gpu_uuid, "code": p.code, "sentence": p.sentence} for p in observed.problems
        ],
    }
    if facts.volume_roots:
        # What decides about placements apart from what changes with every file.
        seen |= {
            "volume_roots": offered_access(facts.volume_roots),
            "volume_space": encode(facts.volume_roots),
        }
    if facts.rank_network:
        # What decides about placements apart from the rest.
        seen |= {"rdma": facts.rank_network.rdma, "rank_network": encode(facts.rank_network)}
    if facts.git_hosts:
        seen["git_hosts"] = list(facts.git_hosts)
    if facts.caches:
        seen["caches"] = encode(facts.caches)
    return {
        "facts": seen,
        "topology": encode(observed.topology),
        "cpu_milli": facts.cpu_milli,
        "memory_mib": facts.memory_mib,
        "disk_mib": facts.disk_mib,
    }


def _ended_unseen(node: Node, ended: Iterable[Replica]) -> Iterator[Observation]:
    """Of replicas that ended after the database was saved that is restored now."""
    for row in ended:
        yield Observation(
            replica=row.pk,
            fence=row.attempt.fence,
            status=ReplicaStatus.LOST,
            code=EventCode.ENDED_UNSEEN,
            message=Message(
                "It ended on %(node)s before the restore of the database; how is not known",
                node=node.name,
            ),
        )


def _observations(observed: ObservedDocument, applied: int) -> Iterator[Observation]:
    """Of the replicas with ids that can be ours; others are ignored."""
    for replica in observed.replicas:
        try:
            pk = UUID(replica.id)
        except ValueError:
            continue
        yield Observation(
            replica=pk,
            fence=replica.fence,
            status=ReplicaStatus(str(replica.state)),
            exit_code=replica.exit_code,
            memory_kill=replica.memory_kill,
            code=replica.code,
            message=from_wire(replica.message, replica.sentence),
            container=replica.container,
            address=replica.address,
            port=replica.port,
            pull=replica.pull,
            image_digest=replica.image_digest,
            code_commit=replica.code_commit,
            applied_revision=applied,
        )
