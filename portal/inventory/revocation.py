"""A node's key is revoked for good, or frozen until an admin unfreezes it.

A revoked node is lost at once. Its jobs are fenced and retried like those of any lost node: after
its lease, when an honest agent has stopped them by itself.
"""

from typing import Any

from django.db import transaction
from django.utils import timezone

from agents.contract.message import Message
from portal.audit.codes import AuditAction, EventCode
from portal.audit.transitions import advance, event_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.inventory.disputes import claims_withdraw
from portal.inventory.models import JoinToken, Node
from portal.inventory.services import lock_active_node, node_audit, ring_node
from scheduler.core.model.states import NodeStatus


def node_revoke(*, node: Node, actor: str) -> Node:
    """Take its key and token from a node that may be in the wrong hands, and give it no more work.

    A new join token lets the machine enrol again, with a new key. Raises Refused(node_retired).
    """
    with transaction.atomic():
        node = lock_active_node(node)
        now = timezone.now()
        JoinToken.objects.filter(node=node, used_at=None).delete()
        claims_withdraw(claimant=node, reported=())
        columns = _without_session(node) | {
            "public_key": "",
            # A token that was once the node's gets no answer that reveals anything.
            "replaced_token_digest": "",
            "revoked_at": now,
            "frozen_at": None,
            "schedulable": False,
            "cordon_reason": node.cordon_reason or "its key was revoked",
            "cordon_actor": node.cordon_actor or actor[:150],
            # One that was never in contact has no lease to wait for.
            "lease_until": node.lease_until or now,
        }
        message = Message("%(user)s revoked its key", user=actor)
        if node.status in (NodeStatus.ONLINE, NodeStatus.UNREACHABLE):
            code = EventCode.NODE_REVOKED
            advance(node, NodeStatus.LOST, actor=actor, code=code, message=message, **columns)
        else:
            node_columns_set(node, columns)
            event_record(node, EventCode.NODE_REVOKED, message, actor=actor)
        after = {"epoch": node.epoch, "status": node.status}
        node_audit(node, AuditAction.NODE_REVOKE, actor=actor, after=after)
        ring_node(node)
    return node


def node_freeze(*, node: Node, boot_ids: tuple[str, str]) -> None:
    """End the session of a node, locked by the caller: two machines use its key in turn. Neither
    gets a new session until an admin unfreezes the key."""
    actor = f"node:{node.name}"
    columns = _without_session(node) | {"frozen_at": timezone.now()}
    node_columns_set(node, columns)
    message = Message("Two machines use the key of %(node)s in turn: it is frozen", node=node.name)
    data = {"first": boot_ids[0], "second": boot_ids[1]}
    event_record(node, EventCode.NODE_FROZEN, message, actor=actor, data=data)
    node_audit(node, AuditAction.NODE_FREEZE, actor=actor, after=data)
    ring_node(node)


def node_unfreeze(*, node: Node, actor: str) -> Node:
    """Let the node say hello with its key again. Raises Refused(node_retired, node_not_frozen)."""
    with transaction.atomic():
        node = lock_active_node(node)
        if node.frozen_at is None:
            sentence = Message("The key of %(node)s is not frozen", node=node.name)
            raise Refused(ErrorCode.NODE_NOT_FROZEN, sentence)
        node_columns_set(node, {"frozen_at": None})
        boots_forget(node)
        message = Message("%(user)s unfroze its key", user=actor)
        event_record(node, EventCode.NODE_UNFROZEN, message, actor=actor)
        node_audit(node, AuditAction.NODE_UNFREEZE, actor=actor, after={})
        ring_node(node)
    return node


def boots_forget(node: Node) -> None:
    """The boots under its key so far do not freeze it again."""
    node.nonces.update(boot_id="")


def node_columns_set(node: Node, columns: dict[str, Any]) -> None:
    for name, value in columns.items():
        setattr(node, name, value)
    node.save(update_fields=list(columns))


def _without_session(node: Node) -> dict[str, Any]:
    return {
        "epoch": node.epoch + 1,
        "token_digest": "",
        "replaced_token_digest": node.token_digest,
        "token_expires_at": None,
    }
