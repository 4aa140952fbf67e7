"""What a node reports of its notebooks: how long their kernels have been idle."""

from datetime import datetime
from uuid import UUID

from agents.contract.documents import ObservedDocument
from portal.idle.kernels import kernel_activity_report
from portal.inventory.models import Node


def notebooks_report(node: Node, observed: ObservedDocument, now: datetime) -> None:
    """Nothing is asked of the database without a notebook."""
    found: dict[UUID, tuple[int, int]] = {}
    for replica in observed.replicas:
        if replica.notebook:
            try:
                found[UUID(replica.id)] = replica.notebook.idle_minutes, replica.fence
            except ValueError:
                continue
    if found:
        kernel_activity_report(node=node, idle_minutes=found, now=now)
