"""Add, cordon and reset nodes, as platform admins do. Node reports are applied in `reports`.

Every service is one transaction with its audit line and, for a change of status, its event.
Retiring a node, which needs its allocations, is in `portal.allocations.retirement`.
"""

import secrets
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.contract.message import Message, verbatim
from portal.audit.codes import AuditAction, EventCode
from portal.audit.services import audit_record
from portal.audit.transitions import event_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.inventory.credentials import digest_of
from portal.inventory.models import JoinToken, Node
from portal.live.bell import ring, ring_plan
from portal.text import single_line
from scheduler.core.model.states import NodeStatus


def node_add(*, name: str, actor: str) -> tuple[Node, str]:
    """Add a node; returns it and the join token for its agent, which is shown and used once.

    Raises Refused(name_invalid, name_taken).
    """
    node = Node(name=name)
    try:
        Node._meta.get_field("name").clean(name, node)
    except ValidationError as error:
        sentence = Message("A node name has 1 to 64 characters of a-z, 0-9, dots and hyphens")
        raise Refused(ErrorCode.NAME_INVALID, sentence, "name") from error
    try:
        with transaction.atomic():
            node.save(force_insert=True)
            token = _join_token(node)
            node_audit(node, AuditAction.NODE_ADD, actor=actor, after={"name": name})
    except IntegrityError as error:
        sentence = Message(
            "A node named %(name)s exists already. Create a new join token for it instead",
            name=repr(name),
        )
        raise Refused(ErrorCode.NAME_TAKEN, sentence, "name") from error
    ring("cluster")
    return node, token


def node_invite(*, node: Node, actor: str) -> str:
    """A new join token, for one that expired or for a reinstalled machine."""
    with transaction.atomic():
        node = lock_active_node(node)
        JoinToken.objects.filter(node=node, used_at=None).delete()
        token = _join_token(node)
        node_audit(node, AuditAction.NODE_INVITE, actor=actor, after={})
    return token


def node_withdraw(*, node: Node, actor: str) -> None:
    """Delete a node that no machine has joined as, such as one with a misspelt name. Its join
    tokens end, and its name is free again. Raises Refused(node_joined, node_retired)."""
    with transaction.atomic():
        row = lock_active_node(node)
        if row.epoch or row.public_key:
            sentence = Message(
                "%(node)s has joined, and has a history. Retire it instead", node=row.name
            )
            raise Refused(ErrorCode.NODE_JOINED, sentence)
        node_audit(row, AuditAction.NODE_WITHDRAW, actor=actor, after={})
        ring_node(row)
        row.delete()


def node_cordon(*, node: Node, reason: str, actor: str) -> Node:
    """Give the node no new work; running work goes on. Raises Refused(reason_missing,
    node_retired)."""
    reason = single_line(reason)
    if not reason:
        raise Refused(
            ErrorCode.REASON_MISSING, "Give a reason: people whose jobs wait will read it", "reason"
        )
    return _set_schedulable(node, False, reason, actor)


def node_uncordon(*, node: Node, actor: str) -> Node:
    """Let the node take work again."""
    return _set_schedulable(node, True, "", actor)


def lock_active_node(node: Node) -> Node:
    """The node's row, locked. Raises Refused(node_retired)."""
    (row,) = Node.objects.filter(pk=node.pk).lock_rows()
    if row.status == NodeStatus.RETIRED:
        sentence = Message("%(node)s is retired. Add a new node", node=row.name)
        raise Refused(ErrorCode.NODE_RETIRED, sentence)
    return row


def node_audit(node: Node, action: AuditAction, *, actor: str, after: dict[str, Any]) -> None:
    audit_record(actor=actor, action=action, noun="node", noun_id=node.name, after=after)


def ring_node(node: Node) -> None:
    """Wake the pages that show the node, and the planner."""
    ring(f"node:{node.pk}")
    ring("cluster")
    ring_plan()


def _join_token(node: Node) -> str:
    token = secrets.token_urlsafe(32)
    expires_at = timezone.now() + timedelta(seconds=settings.PLATFORM.join_token_seconds)
    JoinToken.objects.create(node=node, digest=digest_of(token), expires_at=expires_at)
    return token


def _set_schedulable(node: Node, schedulable: bool, reason: str, actor: str) -> Node:
    action = AuditAction.NODE_UNCORDON if schedulable else AuditAction.NODE_CORDON
    with transaction.atomic():
        node = lock_active_node(node)
        node.schedulable = schedulable
        node.cordon_reason = reason
        node.cordon_actor = "" if schedulable else actor[:150]
        node.save(update_fields=["schedulable", "cordon_reason", "cordon_actor"])
        event_record(
            node,
            EventCode(action),
            verbatim(reason) or Message("%(user)s uncordoned it", user=actor),
            actor=actor,
        )
        node_audit(node, action, actor=actor, after={"reason": reason})
        ring_node(node)
    return node
