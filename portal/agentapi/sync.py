"""Sync, the database part: accept a node's report, and read its desired document."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Case, Exists, F, OuterRef, QuerySet, When
from django.utils import timezone

from agents.contract.calls import EventType, SyncRequest, SyncResponse
from agents.contract.documents import (
    DesiredDocument,
    ObservedDocument,
    read_desired,
)
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.protocol import check_protocol
from portal.agentapi.enrolment import node_mark_online
from portal.agentapi.events import events_append
from portal.agentapi.node_report import report_apply
from portal.agentapi.origins import origins_of
from portal.allocations.holding import node_refuses, node_suspect
from portal.allocations.services import is_release_due, to_be_removed
from portal.database.kept_queries import KeptSelect, KeptUpdate
from portal.database.row_writes import rows_update
from portal.inventory.contact import contact_columns, longest_pause
from portal.inventory.credentials import (
    claimed_node_id,
    epoch_stale,
    node_authenticate,
    require_not_retired,
    token_digest_of,
)
from portal.inventory.models import Node, NodeQuerySet
from scheduler.core.model.states import NodeStatus

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
    desired: DesiredDocument | None = None
    """That of `revision`, if it changed by this report."""

    @property
    def has_news(self) -> bool:
        return self.revision > self.applied_revision or self.full_required


def sync_exchange(
    *, authorization: str, request: SyncRequest
) -> tuple[SyncState, SyncResponse | None]:
    """`sync_accept`, and the answer if there is one already, in the same thread: it does not queue
    for another behind reports that wait for rows."""
    state = sync_accept(authorization=authorization, request=request)
    return state, sync_answer(state=state, revision=state.revision) if state.has_news else None


def sync_accept(*, authorization: str, request: SyncRequest) -> SyncState:
    """Record contact and events, and apply the observed document, in one transaction.

    If the document cannot be applied, contact and events are recorded alone: the node's lease goes
    on, and as the stored hash stays, the agent is asked for the document again.
    """
    if quiet := _quiet(authorization, request):
        return quiet
    node: Node | None = None
    try:
        with transaction.atomic():
            node, columns = _contact(authorization, request)
            desired = None
            if request.observed is not None:
                desired, reported = _report(node, request, request.observed)
                columns |= reported
            rows_update(Node, [node], sorted(columns))
            return _state(node, request, desired)
    except Exception:
        if node is None or request.observed is None:
            raise
        with transaction.atomic():
            node, columns = _contact(authorization, request)
            rows_update(Node, [node], sorted(columns))
        raise


def _quiet(authorization: str, request: SyncRequest) -> SyncState | None:
    """Record the contact of a node with nothing to report, to which there is nothing to say: most
    calls, in one statement. None if anything at all is otherwise."""
    if request.observed is not None or request.events:
        return None
    node_id, applied, now = claimed_node_id(authorization), request.applied_revision, timezone.now()
    as_called = (node_id, token_digest_of(authorization), request.epoch, request.observed_hash)
    times = (now - longest_pause(), now, _lease_until(now))
    acked = _QUIET.write_and_read(*as_called, applied, *times)
    if not acked:
        return None
    return SyncState(
        node_id=node_id,
        epoch=request.epoch,
        acked_seq=acked[0],
        applied_revision=applied,
        revision=applied,
        full_required=False,
    )


def _quiet_nodes(
    pk: Any, digest: Any, epoch: Any, observed: Any, applied: Any, before: Any, now: Any, _: Any
) -> QuerySet[Node]:
    nodes = Node.objects.filter(
        pk=pk,
        token_digest=digest,
        token_expires_at__gt=now,
        last_seen_at__gte=before,
        epoch=epoch,
        status=NodeStatus.ONLINE,
        observed_hash=observed,
        revision=applied,
        restored_at=None,
        holding_since=None,
    )
    return nodes.filter(~Exists(to_be_removed(OuterRef("pk"), applied)))


def _quiet_columns(*values: Any) -> dict[str, Any]:
    *_, applied, _before, now, lease_until = values
    return {"last_seen_at": now, "lease_until": lease_until, "applied_revision": applied}


def _column(name: str) -> Any:
    return Node._meta.get_field(name)


_QUIET = KeptUpdate(
    _quiet_nodes,
    _quiet_columns,
    *map(_column, ("id", "token_digest", "epoch", "observed_hash")),
    *map(_column, ("applied_revision", "last_seen_at", "last_seen_at", "lease_until")),
    returning=_column("acked_seq"),
)


def _lease_until(now: datetime) -> datetime:
    return now + timedelta(seconds=settings.PLATFORM.lease_seconds)


def _locked_node(node: Any) -> NodeQuerySet:
    return Node.objects.filter(pk=node).defer("desired").locking()


# With a report, what it is compared with is read as well.
_REPORTING = KeptSelect(_locked_node, Node._meta.pk)
_CALLING = KeptSelect(lambda node: _locked_node(node).defer("facts", "topology"), Node._meta.pk)
# With the document in `news`, if it is of a later revision than the one that the node has applied.
_NEWS: KeptSelect[Any] = KeptSelect(
    lambda node, applied: (
        Node.objects.filter(pk=node)
        .only(*REVISION_COLUMNS)
        .annotate(news=Case(When(revision__gt=applied, then=F("desired"))))
    ),
    *map(_column, ("id", "revision")),
)


def _contact(authorization: str, request: SyncRequest) -> tuple[Node, set[str]]:
    """The calling node, locked, with its contact and its events; the columns that these change.
    Raises ContractError."""
    nodes = _CALLING if request.observed is None else _REPORTING
    node = node_authenticate(nodes, authorization=authorization, epoch=request.epoch)
    _require_own(node, request.observed)
    columns = set(events_append(node, request.events))
    if any(event.type == EventType.DOCUMENT_REFUSED for event in request.events):
        columns |= set(node_refuses(node))
    if request.applied_revision > node.revision:
        columns |= set(node_suspect(node))
    now = timezone.now()
    contact = contact_columns(node, now) | {"lease_until": _lease_until(now)}
    for name, moment in contact.items():
        setattr(node, name, moment)
    # A revision that we never issued, or issued anew, says nothing about what was applied.
    is_ours = request.applied_revision <= node.revision and not node.is_document_withheld
    node.applied_revision = request.applied_revision if is_ours else 0
    node_mark_online(node)
    return node, columns | {*contact, "applied_revision"}


def _report(
    node: Node, request: SyncRequest, observed: ObservedDocument
) -> tuple[DesiredDocument | None, set[str]]:
    """The node's desired document if the report changed it, and the node's columns to save."""
    check_protocol(observed.protocol)
    desired, columns = report_apply(node, observed, applied_revision=request.applied_revision)
    if request.observed_hash != node.observed_hash:
        node.observed_hash = request.observed_hash
        columns.append("observed_hash")
    return desired, set(columns)


def _state(node: Node, request: SyncRequest, desired: DesiredDocument | None) -> SyncState:
    is_full = request.observed is not None
    return SyncState(
        node_id=node.pk,
        epoch=node.epoch,
        acked_seq=node.acked_seq,
        applied_revision=request.applied_revision,
        revision=WITHHELD if node.is_document_withheld else node.revision,
        full_required=not is_full and (node.restored_at is not None or _needs_full(node, request)),
        desired=desired,
    )


def _needs_full(node: Node, request: SyncRequest) -> bool:
    """Whether the hash is not enough: it differs from the stored one, or devices wait for the
    report that their replicas are gone."""
    return request.observed_hash != node.observed_hash or is_release_due(node=node)


def sync_news(*, state: SyncState) -> tuple[int, SyncResponse | None]:
    """The node's revision now, the cheap read after a bell; and the answer if that is news, in the
    same thread. Raises as `sync_accept` does."""
    (node,) = _NEWS.rows(state.node_id, state.applied_revision)
    require_not_retired(node)
    if node.epoch != state.epoch:
        raise epoch_stale(state.epoch)
    revision = WITHHELD if node.is_document_withheld else node.revision
    if revision <= state.applied_revision:
        return revision, None
    state = replace(state, desired=read_desired(node.news) if node.news else None)
    return revision, sync_answer(state=state, revision=revision)


def sync_answer(*, state: SyncState, revision: int) -> SyncResponse:
    """The answer, with the whole desired document if the node has applied another revision.

    That includes a node ahead of us, after an older database was restored: the agent decides
    whether to refuse the document.
    """
    desired = None
    if revision not in (state.applied_revision, WITHHELD):
        is_in_hand = state.desired is not None and state.desired.revision == revision
        desired = state.desired if is_in_hand else _desired(state.node_id)
    return SyncResponse(
        epoch=state.epoch,
        acked_seq=state.acked_seq,
        lease_seconds=settings.PLATFORM.lease_seconds,
        revision=desired.revision if desired else max(revision, 0),
        full_required=state.full_required,
        server_time=timezone.now().isoformat(),
        desired=desired,
        origins=origins_of(desired) if desired else (),
    )


def _desired(node_id: UUID) -> DesiredDocument | None:
    (document,) = _DESIRED.rows(node_id)
    return read_desired(document) if document else None


_DESIRED = KeptSelect(
    lambda node: Node.objects.filter(pk=node).values_list("desired", flat=True), Node._meta.pk
)


def _require_own(node: Node, observed: ObservedDocument | None) -> None:
    if observed is not None and observed.node != str(node.pk):
        sentence = "a node speaks for itself only: send your own node id"
        raise ContractError(ContractErrorCode.INVALID_FIELD, sentence, "observed.node")
