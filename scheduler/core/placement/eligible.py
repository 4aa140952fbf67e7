"""Which nodes a job may run on at all, by what the nodes are and what the job says."""

from scheduler.core.values import NodeView, WaitingJob


def why_not(node: NodeView, job: WaitingJob) -> str:
    """Why the job may not run on the node though it had room; "" where it may."""
    if missing := next((label for label in job.needs if not _has(node.labels, label)), ""):
        return f"{node.name} has no label {missing}"
    if taint := next((taint for taint in node.taints if not _tolerates(job, taint)), ""):
        return f"{node.name} is kept for jobs that tolerate {taint}"
    return ""


def _has(labels: tuple[str, ...], wanted: str) -> bool:
    """`key=value` asks for exactly that, `key` for any value of it."""
    if "=" in wanted:
        return wanted in labels
    return any(label.partition("=")[0] == wanted for label in labels)


def _tolerates(job: WaitingJob, taint: str) -> bool:
    """`key=value` tolerates that taint, `key` every value of it."""
    return taint in job.tolerates or taint.partition("=")[0] in job.tolerates
