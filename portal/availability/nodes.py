"""Each node with its state and what is free on it, for pages about a thousand nodes.

One query of plain columns for any size; the counts are those of `selectors`.
"""

import json
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache

from django.db.models import TextField
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from agents.contract.boards import Board
from agents.contract.documents import SliceKind
from portal.inventory.models import Node
from scheduler.core.availability.cluster import ClusterAvailability, NodeAvailability
from scheduler.core.availability.counts import Availability, Category, DeviceKind, availability_sum
from scheduler.core.model.states import NodeStatus

# How a database writes an empty or unreported list of problems.
EMPTY_VALUES = (None, "", "[]", "null")


@dataclass(slots=True)
class NodeSummary:
    """A node, with the totals of its GPUs."""

    name: str
    status: str
    schedulable: bool
    blocked: bool
    labels: tuple[str, ...]
    driver: str = ""
    holding: bool = False
    """It runs work that the portal does not know."""
    boards: list[tuple[Board, Availability]] = field(default_factory=list)
    total: Availability = field(default_factory=Availability)

    @property
    def takes_work(self) -> bool:
        is_online = self.status == NodeStatus.ONLINE
        return is_online and self.schedulable and not self.blocked and not self.holding

    @property
    def held_units(self) -> int:
        return self.total.units[Category.HELD]

    @property
    def models(self) -> list[str]:
        return [board.model for board, _ in self.boards]

    def has_room_for(self, profile: str) -> bool:
        """Whether a slice of this profile could start on it now."""
        return bool(self.total.of(DeviceKind(SliceKind.MIG, profile)).available)

    def label(self, key: str) -> str:
        """ "train" for the key "pool" and the label "pool=train"; empty without such a label."""
        head = f"{key}="
        return next((word[len(head) :] for word in self.labels if word.startswith(head)), "")


def node_summaries(cluster: ClusterAvailability, name: str = "") -> list[NodeSummary]:
    """Every node that is not retired, by name; or only the node `name`."""
    rows = Node.objects.active().order_by("name")
    rows = rows.filter(name=name) if name else rows
    facts = (KT("facts__blocks"), KT("facts__driver_version"), Cast("labels", TextField()))
    columns = rows.values_list("name", "status", "schedulable", "holding_since", *facts)
    summaries = []
    for node, status, schedulable, holding_since, blocks, driver, labels in columns:
        blocked = blocks not in EMPTY_VALUES
        row = NodeSummary(node, status, schedulable, blocked, _words(labels), driver or "")
        row.holding = holding_since is not None
        own = cluster.nodes.get(node) or NodeAvailability()
        row.boards = [(cluster.board_table[key], counts) for key, counts in own.boards.items()]
        row.total = own.total
        summaries.append(row)
    return summaries


@lru_cache(4_096)
def _words(labels: str) -> tuple[str, ...]:
    """Parsed labels; cached, as nodes of a rack have the same ones."""
    return tuple(json.loads(labels))


def totals_by_board(
    nodes: Collection[NodeSummary], cluster: ClusterAvailability
) -> list[tuple[Board, Availability, int]]:
    """The totals of each board over these nodes, with its number of nodes; larger memory first.
    Of all nodes they are those of the cluster, which nobody has to add up."""
    parts: dict[str, list[Availability]] = defaultdict(list)
    for node in nodes:
        for board, counts in node.boards:
            parts[board.key].append(counts)
    if _are_all(nodes, cluster):
        totals = cluster.boards
    else:
        totals = {key: availability_sum(own) for key, own in parts.items()}
    found = [(cluster.board_table[key], totals[key], len(own)) for key, own in parts.items()]
    return sorted(found, key=lambda each: (-each[0].memory_mib, each[0].key))


def _are_all(nodes: Collection[NodeSummary], cluster: ClusterAvailability) -> bool:
    """Whether no counted node is missing, such as one that was retired since."""
    counted = sum(bool(own.boards) for own in cluster.nodes.values())
    return counted == sum(bool(node.boards) for node in nodes)
