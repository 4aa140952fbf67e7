"""Reports of nodes as their agents' calls make them, without HTTP."""

from datetime import timedelta

from django.utils import timezone

from agents.contract.calls import SyncRequest, SyncResponse
from agents.contract.documents import ObservedDocument, digest
from portal.agentapi.sync import sync_accept, sync_answer
from portal.inventory.credentials import digest_of
from portal.inventory.models import Node
from tests.support.rows import HonestNode


def session_open(node: HonestNode) -> None:
    """From now on `sync` may speak for the node."""
    Node.objects.filter(pk=node.row.pk).update(
        token_digest=digest_of(f"{node.row.pk.hex}.secret"),
        token_expires_at=timezone.now() + timedelta(hours=1),
        epoch=1,
    )


def sync(
    node: HonestNode, observed: ObservedDocument | None = None, applied: int | None = None
) -> SyncResponse:
    """The portal's answer to a report: of what the node observes now, at the revision that it has
    heard of, or of `observed` at the revision `applied`. The node obeys nothing of it."""
    observed = observed or node.observed()
    heard = node.desired.revision if node.desired else 0
    request = SyncRequest(
        epoch=1,
        applied_revision=heard if applied is None else applied,
        observed_hash=digest(observed),
        observed=observed,
    )
    state = sync_accept(authorization=f"Agent {node.row.pk.hex}.secret", request=request)
    return sync_answer(state=state, revision=state.revision)
