"""Renews the desired documents of nodes; a changed document gets a new revision."""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any
from uuid import UUID

from celery.exceptions import SoftTimeLimitExceeded
from django.db import transaction
from django.db.models import Case, Expression, PositiveBigIntegerField, Value, When

from agents.contract.codec import encode
from portal.database.kept_queries import KeptSelect, ListOf
from portal.database.row_writes import rows_update
from portal.desired.documents import CompiledDocument, documents_compile
from portal.inventory.models import Node
from portal.jobs.models import DesiredState, Replica
from portal.live.bell import ring

# Of a node, what a renewed document changes.
DOCUMENT_COLUMNS = ("revision", "desired", "drive_due")
# What a renewal needs of it.
RENEWED_COLUMNS = (*DOCUMENT_COLUMNS, "allow_mass_removal")
LOOKED_AT_TOGETHER = 64

log = logging.getLogger(__name__)


def node_drive(*, node_id: UUID) -> bool:
    """Write the node's desired document and ring its bell. False if nothing changed."""
    return bool(nodes_drive(node_ids=[node_id]))


def nodes_drive(*, node_ids: Collection[UUID]) -> frozenset[UUID]:
    """Write the desired documents of these nodes, in one transaction, and ring the bell of each
    whose document changed. Returns those."""
    if not node_ids:
        return frozenset()
    with transaction.atomic():
        nodes = Node.objects.filter(pk__in=node_ids)
        return documents_update(nodes.only(*RENEWED_COLUMNS).lock_rows())


def lagging_nodes(node_ids: Collection[UUID]) -> frozenset[UUID]:
    """Those of these nodes that `nodes_drive` would change anything of: their document, or what is
    noted with it. Locks nothing, and asks the same few questions for LOOKED_AT_TOGETHER of them.

    One that lagged before is among them. One that another transaction changes meanwhile may be, for
    nothing, and so are all that were looked at with one whose document cannot be made. The time
    limit of a task ends the look, as it ends any other work.
    """
    keys, lagging = sorted(node_ids), set[UUID]()
    for start in range(0, len(keys), LOOKED_AT_TOGETHER):
        together = keys[start : start + LOOKED_AT_TOGETHER]
        try:
            lagging |= _lagging(together)
        except SoftTimeLimitExceeded:
            raise
        except Exception:
            log.exception("%d nodes are driven without a look at each", len(together))
            lagging.update(together)
    return frozenset(lagging)


def _lagging(node_ids: list[UUID]) -> set[UUID]:
    nodes = _RENEWED.rows(node_ids)
    compiled = documents_compile(nodes)
    return {node.pk for node in nodes if _lags(node, compiled[node.pk])}


def _lags(node: Node, compiled: CompiledDocument) -> bool:
    is_same = _same(encode(compiled.document), node.desired)
    return not is_same or node.drive_due or any(map(_is_unnoted, compiled.replicas))


_RENEWED = KeptSelect(
    lambda nodes: Node.objects.filter(pk__in=nodes).order_by().only(*RENEWED_COLUMNS),
    ListOf(Node._meta.pk),
)


def documents_update(nodes: Collection[Node]) -> frozenset[UUID]:
    """`nodes_drive` for a caller that has locked the nodes, and has changed what their documents
    depend on in the same transaction: nobody sees the one without the other.

    At most five statements that read and four that write, however many nodes there are. It reads
    GPUs, slices, live allocations, and what these belong to; it locks nothing but replicas, so call
    it after all other rows are locked and written.
    """
    was_due = {node.pk for node in nodes if node.drive_due}
    changed = documents_renew(nodes)
    stale = [node for node in nodes if node.pk in changed or node.pk in was_due]
    if stale:
        rows_update(Node, stale, DOCUMENT_COLUMNS)
    for pk in sorted(changed):
        ring(f"node:{pk}")
    return changed


def documents_renew(
    nodes: Collection[Node], *, locked: Collection[UUID] | None = None
) -> frozenset[UUID]:
    """Give each of these locked nodes the document that its rows make, in memory. The caller saves
    DOCUMENT_COLUMNS, and has the ring, of those that are returned: their document is another one.

    Notes from which revision each replica is left out, or is to stop, once. `locked`: the only
    replicas that may be noted, for a caller that holds locks of rows that come after replicas; what
    it leaves is noted by the drive that the change of the others has rung.
    """
    compiled = documents_compile(nodes)
    _read_stored(nodes)
    changed = set[UUID]()
    for node in nodes:
        body = encode(compiled[node.pk].document)
        if not _same(body, node.desired):
            changed.add(node.pk)
            node.revision += 1
            node.desired = body | {"revision": node.revision}
        node.drive_due = False
    rows = [row for one in compiled.values() for row in one.replicas]
    _note_revisions(
        [row for row in rows if locked is None or row.pk in locked],
        {node.pk: node.revision for node in nodes},
    )
    return frozenset(changed)


_STORED = KeptSelect(
    lambda nodes: Node.objects.filter(pk__in=nodes).order_by().values_list("pk", "desired"),
    ListOf(Node._meta.pk),
)


def _read_stored(nodes: Collection[Node]) -> None:
    """The documents of those nodes that were read without theirs."""
    without = {node.pk: node for node in nodes if "desired" in node.get_deferred_fields()}
    if without:
        for pk, desired in _STORED.rows(list(without)):
            without[pk].desired = desired


def _same(body: dict[str, Any], stored: dict[str, Any]) -> bool:
    return body | {"revision": 0} == stored | {"revision": 0}


def _note_revisions(rows: Collection[Replica], revisions: Mapping[UUID, int]) -> None:
    """`revisions`: by node, that of its document now."""
    gone = [row for row in rows if _is_left_out_anew(row)]
    stopped = [row for row in rows if _is_stopped_anew(row)]
    # With the conditions under which they were read: these rows may not be locked yet.
    if gone:
        left_out = Replica.objects.filter(desired_state=DesiredState.GONE, gone_revision=None)
        left_out.filter(pk__in=_pks(gone)).update(gone_revision=_by_node(gone, revisions))
    if stopped:
        stopping = Replica.objects.filter(desired_state=DesiredState.STOP, stop_revision=None)
        stopping.filter(pk__in=_pks(stopped)).update(stop_revision=_by_node(stopped, revisions))


def _is_unnoted(row: Replica) -> bool:
    return _is_left_out_anew(row) or _is_stopped_anew(row)


def _is_left_out_anew(row: Replica) -> bool:
    return row.desired_state == DesiredState.GONE and row.gone_revision is None


def _is_stopped_anew(row: Replica) -> bool:
    return row.desired_state == DesiredState.STOP and row.stop_revision is None


def _pks(rows: Iterable[Replica]) -> list[UUID]:
    return [row.pk for row in rows]


def _by_node(rows: Iterable[Replica], revisions: Mapping[UUID, int]) -> Expression:
    nodes = sorted({row.node_id for row in rows if row.node_id})
    field = PositiveBigIntegerField()
    if len(nodes) == 1:
        return Value(revisions[nodes[0]], output_field=field)
    return Case(*(When(node=pk, then=revisions[pk]) for pk in nodes), output_field=field)
