"""What platform admins do with nodes. What nodes say of themselves is in reports and agentapi.

Every function is one transaction with its audit line and, for a status, its event.
"""

import secrets
from datetime import timedelta

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from agents.contract.phrase import Phrase
from portal.audit.services import audit_record
from portal.audit.transitions import advance, event_record
from portal.database.locks import lock_rows
from portal.errors import Refused
from portal.inventory.credentials import digest_of
from portal.inventory.models import JoinToken, Node
from portal.jobs.models import Allocation, Replica
from portal.live.bell import ring, ring_drive, ring_plan
from portal.text import single_line
from scheduler.core.model.states import ALLOCATION_LIVE, REPLICA_ENDED, AllocationStatus, NodeStatus


def node_add(*, name: str, actor: str) -> tuple[Node, str]:
    """A node and the join token its agent enrols with. The token is shown once, used once.

    Raises Refused(name_invalid, name_taken).
    """
    node = Node(name=name)
    try:
        Node._meta.get_field("name").clean(name, node)
    except ValidationError as wrong:
        sentence = "A node's name has 1 to 64 of a-z, 0-9, dots and hyphens"
        raise Refused("name_invalid", sentence, "name") from wrong
    try:
        with transaction.atomic():
            node.save(force_insert=True)
            token = _join_token(node)
            _audit(actor, "node_add", node, {"name": name})
    except IntegrityError as taken:
        sentence = Phrase(
            "There is a node %(name)s already. Ask for a new join token of it instead",
            name=repr(name),
        )
        raise Refused("name_taken", sentence, "name", 409) from taken
    ring("cluster")
    return node, token


def node_invite(*, node: Node, actor: str) -> str:
    """A new join token: for a first one that ran out, or a machine installed anew."""
    with transaction.atomic():
        node = _live(node)
        JoinToken.objects.filter(node=node, used_at=None).delete()
        token = _join_token(node)
        _audit(actor, "node_invite", node, {})
    return token


def node_cordon(*, node: Node, reason: str, actor: str) -> Node:
    """Give the node no new work; what runs there goes on."""
    reason = single_line(reason)
    if not reason:
        raise Refused("reason_missing", "Say why: people whose jobs wait will read it", "reason")
    return _schedulable(node, False, reason, actor)


def node_uncordon(*, node: Node, actor: str) -> Node:
    """Let the node take work again."""
    return _schedulable(node, True, "", actor)


def node_retire(*, node: Node, actor: str) -> Node:
    """Take a node out for good: its agent is turned away, its name stays taken.

    Raises Refused(node_busy) while something may still run there. Devices of a lost node, which
    will never say that its containers are gone, are given back here.
    """
    with transaction.atomic():
        node = _live(node)
        _require_idle(node)
        held = lock_rows(_held(node).select_related("replica__attempt"))
        for row in held:
            if row.status != AllocationStatus.RELEASING:
                advance(row, AllocationStatus.RELEASING, actor=actor, code="node_retired")
        sentence = Phrase("%(user)s retired it", user=actor)
        advance(
            node,
            NodeStatus.RETIRED,
            actor=actor,
            code="node_retired",
            sentence=sentence,
            schedulable=False,
            token_digest="",
            public_key="",
        )
        JoinToken.objects.filter(node=node, used_at=None).delete()
        _audit(actor, "node_retire", node, {"released": len(held)})
        _rings(node)
    return node


def node_allow_mass_removal(*, node: Node, actor: str) -> Node:
    """Tell a node that holds back that an almost empty desired document is meant so."""
    with transaction.atomic():
        node = _live(node)
        node.allow_mass_removal = True
        node.save(update_fields=["allow_mass_removal"])
        event_record(
            node,
            "mass_removal_allowed",
            Phrase("%(user)s allowed it to remove most work", user=actor),
            actor=actor,
        )
        _audit(actor, "node_allow_mass_removal", node, {})
        ring_drive([node.pk])
    return node


def _join_token(node: Node) -> str:
    token = secrets.token_urlsafe(32)
    expires_at = timezone.now() + timedelta(seconds=settings.PLATFORM.join_token_seconds)
    JoinToken.objects.create(node=node, digest=digest_of(token), expires_at=expires_at)
    return token


def _live(node: Node) -> Node:
    """The node's row, locked. A retired one is never changed again."""
    (row,) = lock_rows(Node.objects.filter(pk=node.pk))
    if row.status == NodeStatus.RETIRED:
        sentence = Phrase("%(node)s is retired. Add a new node", node=row.name)
        raise Refused("node_retired", sentence, "", 409)
    return row


def _schedulable(node: Node, schedulable: bool, reason: str, actor: str) -> Node:
    action = "node_uncordon" if schedulable else "node_cordon"
    with transaction.atomic():
        node = _live(node)
        node.schedulable = schedulable
        node.cordon_reason = reason
        node.cordon_by = "" if schedulable else actor[:150]
        node.save(update_fields=["schedulable", "cordon_reason", "cordon_by"])
        event_record(
            node,
            action,
            reason or Phrase("%(user)s lets it take work again", user=actor),
            actor=actor,
        )
        _audit(actor, action, node, {"reason": reason})
        _rings(node)
    return node


def _require_idle(node: Node) -> None:
    """Refuse while a container may still run there."""
    ended = [str(status) for status in REPLICA_ENDED]
    live = Replica.objects.filter(node=node).exclude(status__in=ended).count()
    if live:
        sentence = Phrase(
            "%(n)s replicas may still run on %(node)s. Cordon it and let them end first",
            n=live,
            node=node.name,
        )
        raise Refused("node_busy", sentence, "", 409)
    is_gone = node.status == NodeStatus.LOST or node.last_seen_at is None
    if not is_gone and _held(node).exists():
        sentence = Phrase(
            "%(node)s is still giving devices back. Try again in a minute", node=node.name
        )
        raise Refused("node_busy", sentence, "", 409)


def _held(node: Node) -> QuerySet[Allocation]:
    live = [str(status) for status in ALLOCATION_LIVE]
    return Allocation.objects.filter(replica__node=node, status__in=live)


def _audit(actor: str, action: str, node: Node, after: dict[str, object]) -> None:
    audit_record(actor=actor, action=action, noun="node", noun_id=node.name, after=after)


def _rings(node: Node) -> None:
    ring(f"node:{node.pk}")
    ring("cluster")
    ring_plan()
