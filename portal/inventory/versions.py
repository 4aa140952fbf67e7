"""What people choose for a node, as one versioned thing: a change names the version it was made
from."""

import hashlib
import json
from typing import Any

from django.db import transaction

from portal.inventory.models import Node
from portal.inventory.node_settings import node_labels_set, node_taints_set
from portal.inventory.services import node_cordon, node_uncordon

VERSIONED_FIELDS = (
    "status",
    "schedulable",
    "cordon_reason",
    "cordon_by",
    "labels",
    "taints",
    "taint_reason",
)


def node_version(node: Node) -> str:
    """Changes with what people choose for the node and with its status; not with its reports."""
    chosen = json.dumps(
        [node.name, *(getattr(node, name) for name in VERSIONED_FIELDS)], sort_keys=True
    )
    return hashlib.sha256(chosen.encode()).hexdigest()[:16]


def node_update(*, node: Node, changes: dict[str, Any], actor: str) -> None:
    """Set what `wanted` names: schedulable (with cordon_reason), labels, taints (with
    taint_reason). All or nothing; raises what the services of each raise."""
    with transaction.atomic():
        if changes.get("schedulable") is False:
            node_cordon(node=node, reason=changes.get("cordon_reason", ""), actor=actor)
        elif changes.get("schedulable") is True:
            node_uncordon(node=node, actor=actor)
        if "labels" in changes:
            node_labels_set(node=node, labels=changes["labels"], actor=actor)
        if "taints" in changes:
            reason = changes.get("taint_reason", "")
            node_taints_set(node=node, taints=changes["taints"], reason=reason, actor=actor)
