"""The nodes as the defaults of a request need them, in two queries."""

import json
from collections import defaultdict
from typing import Any
from uuid import UUID

from django.db.models import Count

from agents.contract.boards import Board
from portal.inventory.boards import board_of
from portal.inventory.models import Gpu, Node
from scheduler.core.placement.host_shares import HostNode


def host_nodes() -> tuple[HostNode, ...]:
    """Every node that is not retired, equal ones once. A node that is away, drained or blocked
    counts as well: it comes back, and defaults do not change in between."""
    boards = _boards_by_node()
    columns = ("pk", "cpu_milli", "memory_mib", "labels", "taints")
    nodes: dict[object, HostNode] = {}
    for pk, cpu, memory, labels, taints in Node.objects.active().values_list(*columns):
        found = tuple(boards.get(pk, ()))
        node = HostNode(cpu, memory, found, tuple(labels), tuple(taints))
        key = (cpu, memory, tuple(map(id, found)), node.labels, node.taints)
        nodes.setdefault(key, node)
    return tuple(nodes.values())


def _boards_by_node() -> dict[UUID, list[Board]]:
    """Each kind of board is one object, however many GPUs there are."""
    names = ("board", "product_name", "memory_mib", "profiles")
    # Equal GPUs of a node are one row: every submit reads this, on a large cluster too.
    alike = Gpu.objects.order_by("node_id", "board").values_list("node_id", *names)
    known: dict[tuple[Any, ...], Board] = {}
    by_node: dict[UUID, list[Board]] = defaultdict(list)
    for node, *values, count in alike.annotate(count=Count("pk")):
        key = (*values[:3], json.dumps(values[3]))
        if key not in known:
            known[key] = board_of(Gpu(**dict(zip(names, values, strict=True))))
        by_node[node] += [known[key]] * count
    return by_node
