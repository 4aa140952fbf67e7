"""The settings of a node as one versioned resource, for conditional updates over REST."""

import hashlib
import json
from typing import Any

from django.db import transaction

from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.inventory.models import Node
from portal.inventory.node_settings import node_labels_set, node_taints_set
from portal.inventory.services import node_cordon, node_uncordon

VERSIONED_FIELDS = (
    "status",
    "schedulable",
    "cordon_reason",
    "cordon_actor",
    "labels",
    "taints",
    "taint_reason",
)


def node_version(node: Node) -> str:
    """Changes with the node's settings and status, not with its reports."""
    settings = json.dumps(
        [node.name, *(getattr(node, name) for name in VERSIONED_FIELDS)], sort_keys=True
    )
    return hashlib.sha256(settings.encode()).hexdigest()[:16]


def node_update(
    *, node: Node, changes: dict[str, Any], actor: str, version: str | None = None
) -> None:
    """Apply `changes`: schedulable (with cordon_reason), labels, taints (with taint_reason); only
    to this version, if one is given.

    All or nothing. Raises Refused(version_stale), and what the service of each setting raises.
    """
    with transaction.atomic():
        (row,) = Node.objects.filter(pk=node.pk).lock_rows()
        if version not in (None, node_version(row)):
            raise Refused(ErrorCode.VERSION_STALE, "This has changed since you opened it")
        if changes.get("schedulable") is False:
            node_cordon(node=node, reason=changes.get("cordon_reason", ""), actor=actor)
        elif changes.get("schedulable") is True:
            node_uncordon(node=node, actor=actor)
        if "labels" in changes:
            node_labels_set(node=node, labels=changes["labels"], actor=actor)
        if "taints" in changes:
            reason = changes.get("taint_reason", "")
            node_taints_set(node=node, taints=changes["taints"], reason=reason, actor=actor)
