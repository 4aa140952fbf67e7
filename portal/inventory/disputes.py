"""Disputed claims: a node reports a GPU that another node holds. No report moves a GPU.

The GPU stays with its holder, and the claimant gets no work for it, until an admin decides: see
`portal.allocations.disputes`.
"""

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from agents.contract.message import Message
from portal.audit.codes import AuditAction, EventCode
from portal.audit.services import audit_record
from portal.audit.transitions import event_record
from portal.database.kept_queries import KeptSelect
from portal.inventory.models import DisputedClaim, Gpu, Node
from portal.live.bell import ring


def claims_of(node: Any) -> QuerySet[DisputedClaim]:
    """On GPUs of other nodes. `node`: its key."""
    return DisputedClaim.objects.current().filter(claimant=node)


_CLAIMED = KeptSelect(lambda node: claims_of(node).values_list("pk", "gpu__uuid"), Node._meta.pk)


def claim_dispute(*, gpu: Gpu, claimant: Node) -> None:
    """Record that `claimant` reports a GPU of another node: once, however often it is repeated."""
    now = timezone.now()
    claim, is_new = DisputedClaim.objects.get_or_create(
        gpu=gpu, claimant=claimant, defaults={"claimed_at": now}
    )
    if not is_new:
        if claim.withdrawn_at:
            DisputedClaim.objects.filter(pk=claim.pk).update(withdrawn_at=None)
        return
    actor = f"node:{claimant.name}"
    sentence = "%(claimant)s reports GPU %(gpu)s, which belongs to %(holder)s. It stays there"
    names = {"claimant": claimant.name, "holder": gpu.node.name}
    for row in (claimant, gpu):
        message = Message(sentence, gpu=gpu.uuid, **names)
        event_record(row, EventCode.GPU_CLAIMED_TWICE, message, actor=actor)
    audit_record(
        actor=actor, action=AuditAction.GPU_CLAIM, noun="gpu", noun_id=gpu.uuid, after=names
    )
    ring("cluster")


def claims_withdraw(*, claimant: Node, reported: Iterable[str]) -> None:
    """The node no longer reports these GPUs of other nodes."""
    claims, still = _CLAIMED.rows(claimant.pk), set(reported)
    if withdrawn := [pk for pk, uuid in claims if uuid not in still]:
        rows = DisputedClaim.objects.current().filter(pk__in=withdrawn)
        rows.update(withdrawn_at=timezone.now())
