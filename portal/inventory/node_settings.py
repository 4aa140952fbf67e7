"""What platform admins choose for nodes and GPUs: labels, taints, pinned partitions.

Every function is one transaction with its audit line, and rings the planner.
"""

from collections.abc import Iterable

from django.db import transaction

from agents.contract.phrase import Phrase, joined_sentences
from portal.audit.services import audit_record
from portal.audit.transitions import event_record
from portal.database.locks import lock_rows
from portal.errors import Refused
from portal.inventory.models import Gpu, Node
from portal.live.bell import ring, ring_plan
from portal.text import single_line
from scheduler.core.request.conditions import MAX_NODE_WORDS, read_node_words
from scheduler.core.request.values import Problem


def node_labels_set(*, node: Node, labels: Iterable[str], actor: str) -> Node:
    """Say what the node has that jobs may ask for: ["nvme", "zone=a"]. Raises
    Refused(labels_invalid)."""
    return _node_set(node, actor, "node_label", labels=_words("labels", labels))


def node_taints_set(*, node: Node, taints: Iterable[str], reason: str, actor: str) -> Node:
    """Keep the node for jobs that tolerate every one of `taints`; none opens it to all. What runs
    there goes on. Raises Refused(taints_invalid, reason_missing)."""
    words = _words("taints", taints)
    because = single_line(reason) if words else ""
    if words and not because:
        raise Refused("reason_missing", "Say why: people whose jobs wait will read it", "reason")
    return _node_set(node, actor, "node_taint", taints=words, taint_reason=because)


def gpu_pin(*, gpu: Gpu, reason: str, actor: str) -> Gpu:
    """Keep the GPU's partitions as they are: nothing is merged or carved there. Raises
    Refused(reason_missing)."""
    because = single_line(reason)
    if not because:
        raise Refused("reason_missing", "Say why: people whose jobs wait will read it", "reason")
    return _gpu_set(gpu, actor, "gpu_pin", True, actor[:150], because)


def gpu_unpin(*, gpu: Gpu, actor: str) -> Gpu:
    """Let the planner partition the GPU again."""
    return _gpu_set(gpu, actor, "gpu_unpin", False, "", "")


def _node_set(node: Node, actor: str, action: str, **columns: object) -> Node:
    with transaction.atomic():
        (row,) = lock_rows(Node.objects.filter(pk=node.pk))
        before = {name: getattr(row, name) for name in columns}
        for name, value in columns.items():
            setattr(row, name, value)
        row.save(update_fields=list(columns))
        said = ", ".join(f"{name}: {value}" for name, value in columns.items())
        event_record(
            row, action, Phrase("%(user)s set %(what)s", user=actor, what=said), actor=actor
        )
        audit_record(
            actor=actor, action=action, noun="node", noun_id=row.name, before=before, after=columns
        )
        _rings(row)
    return row


def _gpu_set(gpu: Gpu, actor: str, action: str, pinned: bool, by: str, because: str) -> Gpu:
    with transaction.atomic():
        (row,) = lock_rows(Gpu.objects.filter(pk=gpu.pk).select_related("node"))
        before = {"pinned": row.pinned, "reason": row.pinned_because}
        row.pinned, row.pinned_by, row.pinned_because = pinned, by, because
        row.save(update_fields=["pinned", "pinned_by", "pinned_because"])
        event_record(
            row,
            action,
            because or Phrase("%(user)s lets it be partitioned again", user=actor),
            actor=actor,
        )
        after = {"pinned": pinned, "reason": because}
        audit_record(
            actor=actor, action=action, noun="gpu", noun_id=row.uuid, before=before, after=after
        )
        _rings(row.node)
    return row


def _words(field: str, words: Iterable[str]) -> list[str]:
    wrong: list[str] = []

    def refuse(where: str, code: Problem, sentence: str) -> None:
        wrong.append(Phrase("%(where)s: %(why)s", where=where, why=sentence))

    found = list(read_node_words(field, list(words)[: MAX_NODE_WORDS + 1], refuse))
    if wrong:
        raise Refused(f"{field}_invalid", joined_sentences(wrong), field)
    return found


def _rings(node: Node) -> None:
    ring(f"node:{node.pk}")
    ring("cluster")
    ring_plan()
