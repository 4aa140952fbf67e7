"""Decide a disputed claim: a GPU that two nodes report belongs to one of them."""

from django.db import transaction
from django.utils import timezone

from agents.contract.message import Message
from portal.allocations.models import Allocation
from portal.audit.codes import AuditAction, EventCode
from portal.audit.services import audit_record
from portal.audit.transitions import event_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.inventory.models import DisputedClaim, Gpu, Node, Slice
from portal.inventory.reports import slice_delete
from portal.inventory.services import lock_active_node, ring_node
from portal.live.bell import ring_drive


def disputed_claim_accept(*, claim: DisputedClaim, actor: str) -> Gpu:
    """Give the GPU to the claimant, as when the card was put into another server.

    Its idle slices are forgotten: the claimant carves its own. Raises Refused(not_found) if the
    claim is decided or withdrawn or the GPU has another holder by now, Refused(node_retired) if the
    claimant is retired, and Refused(gpu_busy) while work is on the GPU.
    """
    with transaction.atomic():
        nodes = Node.objects.filter(pk__in=[claim.claimant_id, claim.gpu.node_id])
        by_id = {node.pk: node for node in nodes.lock_rows()}
        holder = by_id[claim.gpu.node_id]
        claimant = lock_active_node(by_id[claim.claimant_id])
        (gpu,) = Gpu.objects.filter(pk=claim.gpu_id).lock_rows()
        _require_open(claim)
        _require_idle(gpu, holder)
        for row in Slice.objects.live().filter(gpu=gpu).select_related("gpu").lock_rows():
            slice_delete(row)
        Gpu.objects.filter(pk=gpu.pk).update(node=claimant)
        DisputedClaim.objects.filter(pk=claim.pk).delete()
        # The claimant's last report of it was not stored: have it send a whole report.
        Node.objects.filter(pk=claimant.pk).update(observed_hash="", drive_due=True)
        Node.objects.filter(pk=holder.pk).update(drive_due=True)
        names = {"holder": holder.name, "claimant": claimant.name}
        message = Message(
            "%(user)s moved GPU %(gpu)s from %(holder)s to %(claimant)s",
            user=actor,
            gpu=gpu.uuid,
            **names,
        )
        for node in (holder, claimant):
            event_record(node, EventCode.GPU_MOVED, message, actor=actor)
            ring_node(node)
        _audit(AuditAction.GPU_CLAIM_ACCEPT, gpu, names, actor)
        ring_drive([holder.pk, claimant.pk])
    gpu.node = claimant
    return gpu


def disputed_claim_dismiss(*, claim: DisputedClaim, actor: str) -> DisputedClaim:
    """Leave the GPU with its holder, and raise no alert for this claim again. Raises
    Refused(not_found)."""
    with transaction.atomic():
        (gpu,) = Gpu.objects.filter(pk=claim.gpu_id).select_related("node").lock_rows()
        row = _require_open(claim)
        row.dismissed_at, row.dismiss_actor = timezone.now(), actor[:150]
        row.save(update_fields=["dismissed_at", "dismiss_actor"])
        names = {"holder": gpu.node.name, "claimant": row.claimant.name}
        _audit(AuditAction.GPU_CLAIM_DISMISS, gpu, names, actor)
        ring_node(row.claimant)
    return row


def _require_open(claim: DisputedClaim) -> DisputedClaim:
    """The claim, if it is still made against the holder that the admin saw."""
    open_claims = DisputedClaim.objects.undecided().filter(gpu__node=claim.gpu.node_id)
    row = open_claims.filter(pk=claim.pk).select_related("claimant").first()
    if row is None:
        raise Refused(ErrorCode.NOT_FOUND, "This claim was decided or withdrawn")
    return row


def _require_idle(gpu: Gpu, holder: Node) -> None:
    if Allocation.objects.live().filter(slice__gpu=gpu).exists():
        sentence = Message(
            "Work of %(node)s is on this GPU. Drain the node first, or retire it if it is gone",
            node=holder.name,
        )
        raise Refused(ErrorCode.GPU_BUSY, sentence)


def _audit(action: AuditAction, gpu: Gpu, names: dict[str, str], actor: str) -> None:
    audit_record(actor=actor, action=action, noun="gpu", noun_id=gpu.uuid, after=names)
