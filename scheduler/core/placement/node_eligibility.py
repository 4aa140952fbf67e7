"""Which nodes a job may run on, by their labels, taints and availability."""

from scheduler.core.model.message import Message, make_message, verbatim
from scheduler.core.model.snapshot import NodeView, WaitingJob


def exclusion_message(node: NodeView, job: WaitingJob) -> Message | None:
    """Why the job may not run on the node now; None if it may."""
    return ineligible_message(node, job) if node.available else unavailable_message(node)


def ineligible_message(node: NodeView, job: WaitingJob) -> Message | None:
    """Why the labels or taints of the node keep the job away; None if they do not."""
    missing = next((label for label in job.needs if not _has(node.labels, label)), "")
    taint = next((taint for taint in node.taints if not _tolerates(job, taint)), "")
    if missing:
        return make_message("node.no_label", node=node.name, label=missing)
    return make_message("node.tainted", node=node.name, taint=taint) if taint else None


def unavailable_message(node: NodeView) -> Message:
    """Why the node accepts no jobs."""
    if key := node.unavailable_key:
        return make_message(key, node=node.name, why=node.unavailable_reason)
    return verbatim(node.unavailable_reason)


def _has(labels: tuple[str, ...], required: str) -> bool:
    """`key=value` requires this value, `key` any value of it."""
    if "=" in required:
        return required in labels
    return any(label.partition("=")[0] == required for label in labels)


def _tolerates(job: WaitingJob, taint: str) -> bool:
    """`key=value` tolerates that taint, `key` every value of it."""
    return taint in job.tolerates or taint.partition("=")[0] in job.tolerates
