"""What people choose for a node, as one versioned thing: a change names the version it was made
from."""

import hashlib
import json
from typing import Any

from django.db import transaction

from portal.inventory.models import Node
from portal.inventory.node_settings import node_label, node_taint
from portal.inventory.services import node_cordon, node_uncordon

CHOSEN = (
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
    chosen = json.dumps([node.name, *(getattr(node, name) for name in CHOSEN)], sort_keys=True)
    return hashlib.sha256(chosen.encode()).hexdigest()[:16]


def node_change(*, node: Node, wanted: dict[str, Any], actor: str) -> None:
    """Set what `wanted` names: schedulable (with cordon_reason), labels, taints (with
    taint_reason). All or nothing; raises what the services of each raise."""
    with transaction.atomic():
        if wanted.get("schedulable") is False:
            node_cordon(node=node, reason=wanted.get("cordon_reason", ""), actor=actor)
        elif wanted.get("schedulable") is True:
            node_uncordon(node=node, actor=actor)
        if "labels" in wanted:
            node_label(node=node, labels=wanted["labels"], actor=actor)
        if "taints" in wanted:
            reason = wanted.get("taint_reason", "")
            node_taint(node=node, taints=wanted["taints"], reason=reason, actor=actor)
