"""What a tree is called in a file system."""

from agents.contract.file_transfer import TreeKind
from portal.files.models import Tree


def archive_name(tree: Tree) -> str:
    """As J-12-output-attempt-1-rank-0.zip."""
    parts = [tree.job.label if tree.job else tree.project.slug, tree.kind]
    if tree.kind == TreeKind.CHECKPOINT:
        parts.append(f"step-{tree.step}")
    if tree.attempt:
        parts.append(f"attempt-{tree.attempt.number}")
    replicas = tree.attempt.placed_replicas if tree.attempt else 0
    if tree.job and max(replicas, tree.job.replica_count) > 1:
        parts.append(f"rank-{tree.rank}")
    if tree.kind == TreeKind.CODE:
        parts.append(tree.digest[:12])
    return "-".join(parts) + ".zip"
