"""Sync, the database part: accept a node's report, and read its desired document."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agents.contract.calls import EventType, SyncRequest, SyncResponse
from agents.contract.documents import (
    DesiredDocument,
    ObservedDocument,
    check_protocol,
    read_desired,
)
from agents.contract.errors import ContractError, ContractErrorCode
from portal.agentapi.enrolment import node_mark_online
from portal.agentapi.events import events_append
from portal.agentapi.node_report import node_report
from portal.allocations.holding import node_refuses, node_suspect
from portal.allocations.services import is_release_due
from portal.inventory.credentials import epoch_stale, node_authenticate, require_not_retired
from portal.inventory.models import Node

# No document has this revision, and it is no news to any node.
WITHHELD = -1
REVISION_COLUMNS = (
    "name",
    "status",
    "epoch",
    "revision",
    "restored_at",
    "holding_since",
    "allow_mass_removal",
)


@dataclass(frozen=True, slots=True)
class SyncState:
    """A node's revisions after its report, from which the answer is made."""

    node_id: UUID
    epoch: int
    acked_seq: int
    applied_revision: int
    revision: int
    """Of the portal; WITHHELD while the node gets no document."""
    full_required: bool

    @property
    def has_news(self) -> bool:
        return self.revision > self.applied_revision or self.full_required


def sync_accept(*, authorization: str, request: SyncRequest) -> SyncState:
    """Record contact, events and the observed document.

    The observed document is applied after the first commit, in the lock order of the rows that it
    touches. If that fails, the stored hash stays, and the agent is asked for the document again.
    """
    observed = request.observed
    with transaction.atomic():
        nodes = Node.objects.defer("desired", "facts", "topology")
        nodes = nodes.select_for_update(no_key=True, of=("self",))
        node = node_authenticate(nodes, authorization=authorization, epoch=request.epoch)
        _require_own(node, observed)
        changed = events_append(node, request.events)
        if any(event.type == EventType.DOCUMENT_REFUSED for event in request.events):
            changed += node_refuses(node)
        if request.applied_revision > node.revision:
            changed += node_suspect(node)
        _contact(node, request, changed)
    if observed is not None:
        check_protocol(observed.protocol)
        node_report(node.pk, observed, request.applied_revision)
        stored = Node.objects.filter(pk=node.pk, epoch=request.epoch)
        if request.observed_hash != node.observed_hash:
            stored.update(observed_hash=request.observed_hash)
    return SyncState(
        node_id=node.pk,
        epoch=node.epoch,
        acked_seq=node.acked_seq,
        applied_revision=request.applied_revision,
        revision=_revision(node.pk, request.epoch),
        full_required=observed is None
        and (node.restored_at is not None or _needs_full(node, request)),
    )


def _needs_full(node: Node, request: SyncRequest) -> bool:
    """Whether the hash is not enough: it differs from the stored one, or devices wait for the
    report that their replicas are gone."""
    return request.observed_hash != node.observed_hash or is_release_due(node=node)


def current_revision(*, state: SyncState) -> int:
    """The node's revision now: the cheap read after a bell. Raises as `sync_accept` does."""
    return _revision(state.node_id, state.epoch)


def sync_answer(*, state: SyncState, revision: int) -> SyncResponse:
    """The answer, with the whole desired document if the node has applied another revision.

    That includes a node ahead of us, after an older database was restored: the agent decides
    whether to refuse the document.
    """
    desired = None
    if revision not in (state.applied_revision, WITHHELD):
        desired = _desired(state.node_id)
    return SyncResponse(
        epoch=state.epoch,
        acked_seq=state.acked_seq,
        lease_seconds=settings.PLATFORM.lease_seconds,
        revision=desired.revision if desired else max(revision, 0),
        full_required=state.full_required,
        server_time=timezone.now().isoformat(),
        desired=desired,
    )


def _desired(node_id: UUID) -> DesiredDocument | None:
    document = Node.objects.values_list("desired", flat=True).get(pk=node_id)
    return read_desired(document) if document else None


def _revision(node_id: UUID, epoch: int) -> int:
    """The revision that the node should have; WITHHELD while it gets no document."""
    node = Node.objects.only(*REVISION_COLUMNS).get(pk=node_id)
    require_not_retired(node)
    if node.epoch != epoch:
        raise epoch_stale(epoch)
    return WITHHELD if node.is_document_withheld else node.revision


def _require_own(node: Node, observed: ObservedDocument | None) -> None:
    if observed is not None and observed.node != str(node.pk):
        sentence = "a node speaks for itself only: send your own node id"
        raise ContractError(ContractErrorCode.INVALID_FIELD, sentence, "observed.node")


def _contact(node: Node, request: SyncRequest, changed: tuple[str, ...]) -> None:
    """`changed`: the columns that its events have changed."""
    now = timezone.now()
    node.last_seen_at = now
    node.lease_until = now + timedelta(seconds=settings.PLATFORM.lease_seconds)
    # A revision that we never issued, or issued anew, says nothing about what was applied.
    is_ours = request.applied_revision <= node.revision and not node.is_document_withheld
    node.applied_revision = request.applied_revision if is_ours else 0
    node.save(update_fields=["last_seen_at", "lease_until", "applied_revision", *changed])
    node_mark_online(node)
