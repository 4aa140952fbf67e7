"""Retire a node for good."""

from django.db import transaction

from agents.contract.message import Message
from portal.allocations.models import Allocation
from portal.allocations.querysets import AllocationQuerySet
from portal.audit.codes import AuditAction, EventCode
from portal.audit.transitions import advance
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.inventory.models import DisputedClaim, JoinToken, Node
from portal.inventory.services import lock_active_node, node_audit, ring_node
from portal.jobs.models import Replica
from scheduler.core.model.states import REPLICA_ENDED, AllocationStatus, NodeStatus


def node_retire(*, node: Node, actor: str) -> Node:
    """Retire a node: its agent is turned away and its name is never used again.

    The devices of a lost node, which will never report that its containers are gone, are released
    here. Raises Refused(node_retired), and Refused(node_busy) while something may still run there.
    """
    with transaction.atomic():
        node = lock_active_node(node)
        _require_idle(node)
        allocations = _allocations_on(node).select_related("replica__attempt").lock_rows()
        for row in allocations:
            if row.status != AllocationStatus.RELEASING:
                advance(row, AllocationStatus.RELEASING, actor=actor, code=EventCode.NODE_RETIRED)
        advance(
            node,
            NodeStatus.RETIRED,
            actor=actor,
            code=EventCode.NODE_RETIRED,
            message=Message("%(user)s retired it", user=actor),
            schedulable=False,
            token_digest="",
            # The next call of its agent is answered with `node_retired`, and the agent ends.
            replaced_token_digest=node.token_digest or node.replaced_token_digest,
            public_key="",
        )
        # Claimants get its GPUs with their next whole report: have them send one.
        claimants = DisputedClaim.objects.filter(gpu__node=node).values("claimant_id")
        Node.objects.filter(pk__in=claimants).update(observed_hash="")
        DisputedClaim.objects.filter(claimant=node).delete()
        JoinToken.objects.filter(node=node, used_at=None).delete()
        node_audit(node, AuditAction.NODE_RETIRE, actor=actor, after={"released": len(allocations)})
        ring_node(node)
    return node


def _require_idle(node: Node) -> None:
    """Refuse while a container may still run there."""
    ended = [str(status) for status in REPLICA_ENDED]
    running = Replica.objects.filter(node=node).exclude(status__in=ended).count()
    if running:
        sentence = Message(
            "%(n)s replicas may still run on %(node)s. Cordon it and let them end first",
            n=running,
            node=node.name,
        )
        raise Refused(ErrorCode.NODE_BUSY, sentence)
    is_gone = node.status == NodeStatus.LOST or node.last_seen_at is None
    if not is_gone and _allocations_on(node).exists():
        sentence = Message(
            "%(node)s is still releasing devices. Try again in a minute", node=node.name
        )
        raise Refused(ErrorCode.NODE_BUSY, sentence)


def _allocations_on(node: Node) -> AllocationQuerySet[Allocation]:
    return Allocation.objects.live().filter(replica__node=node)
