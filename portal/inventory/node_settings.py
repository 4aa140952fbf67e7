"""Set labels and taints of nodes, and pin the partitions of GPUs.

Every service is one transaction with its audit entry, and rings the planner.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction

from agents.contract.message import Message, join_clauses, verbatim
from portal.audit.codes import AuditAction, EventCode
from portal.audit.services import audit_record
from portal.audit.transitions import event_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.inventory.models import Gpu, Node
from portal.inventory.services import ring_node
from portal.text import single_line
from scheduler.core.request.conditions import MAX_NODE_LABELS, read_node_labels
from scheduler.core.request.values import ProblemCode


def node_labels_set(*, node: Node, labels: Iterable[str], actor: str) -> Node:
    """Set the labels that jobs may require, such as ["nvme", "zone=a"]. Raises
    Refused(labels_invalid)."""
    return _node_set(node, actor, AuditAction.NODE_LABEL, labels=read_labels(labels))


def node_taints_set(*, node: Node, taints: Iterable[str], reason: str, actor: str) -> Node:
    """Reserve the node for jobs that tolerate all `taints`; an empty list opens it to every job.

    Running work goes on. Raises Refused(taints_invalid, reason_missing).
    """
    words = read_taints(taints)
    reason = single_line(reason) if words else ""
    if words and not reason:
        raise Refused(
            ErrorCode.REASON_MISSING, "Give a reason: people whose jobs wait will read it", "reason"
        )
    return _node_set(node, actor, AuditAction.NODE_TAINT, taints=words, taint_reason=reason)


def gpu_pin(*, gpu: Gpu, reason: str, actor: str) -> Gpu:
    """Pin the GPU: its slices are neither merged nor carved. Raises Refused(reason_missing)."""
    reason = single_line(reason)
    if not reason:
        raise Refused(
            ErrorCode.REASON_MISSING, "Give a reason: people whose jobs wait will read it", "reason"
        )
    return _gpu_set(gpu, actor, AuditAction.GPU_PIN, True, actor[:150], reason)


def gpu_unpin(*, gpu: Gpu, actor: str) -> Gpu:
    """Let the planner partition the GPU again."""
    return _gpu_set(gpu, actor, AuditAction.GPU_UNPIN, False, "", "")


def _node_set(node: Node, actor: str, action: AuditAction, **columns: object) -> Node:
    with transaction.atomic():
        (row,) = Node.objects.filter(pk=node.pk).lock_rows()
        before = {name: getattr(row, name) for name in columns}
        for name, value in columns.items():
            setattr(row, name, value)
        row.save(update_fields=list(columns))
        changes = ", ".join(f"{name}: {value}" for name, value in columns.items())
        event_record(
            row,
            EventCode(action),
            Message("%(user)s set %(what)s", user=actor, what=changes),
            actor=actor,
        )
        audit_record(
            actor=actor, action=action, noun="node", noun_id=row.name, before=before, after=columns
        )
        ring_node(row)
    return row


def _gpu_set(
    gpu: Gpu, actor: str, action: AuditAction, pinned: bool, pin_actor: str, reason: str
) -> Gpu:
    with transaction.atomic():
        (row,) = Gpu.objects.filter(pk=gpu.pk).select_related("node").lock_rows()
        before = {"pinned": row.pinned, "reason": row.pin_reason}
        row.pinned, row.pin_actor, row.pin_reason = pinned, pin_actor, reason
        row.save(update_fields=["pinned", "pin_actor", "pin_reason"])
        event_record(
            row,
            EventCode(action),
            verbatim(reason) or Message("%(user)s unpinned it", user=actor),
            actor=actor,
        )
        after = {"pinned": pinned, "reason": reason}
        audit_record(
            actor=actor, action=action, noun="gpu", noun_id=row.uuid, before=before, after=after
        )
        ring_node(row.node)
    return row


def read_labels(words: Iterable[str]) -> list[str]:
    """Each once. Raises Refused(labels_invalid)."""
    return _read_words("labels", words)


def read_taints(words: Iterable[str]) -> list[str]:
    """Each once. Raises Refused(taints_invalid)."""
    return _read_words("taints", words)


def _read_words(field: str, words: Iterable[str]) -> list[str]:
    given = list(words)[: MAX_NODE_LABELS + 1]
    problems: list[Message] = []

    def refuse(
        field: str,
        code: ProblemCode,
        why: Message | str,
        suggestion: Mapping[str, Any] | None = None,
        combination: str = "",
    ) -> None:
        index = field.partition(".")[2]
        where = repr(given[int(index)][:64]) if index else field
        problems.append(Message("%(where)s: %(why)s", where=where, why=why))

    found = list(read_node_labels(field, given, refuse))
    if problems:
        raise Refused(ErrorCode(f"{field}_invalid"), join_clauses(*problems), field)
    return found
