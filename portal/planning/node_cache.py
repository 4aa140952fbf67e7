"""Nodes that a process keeps between planning passes: only those that changed are read again.

    nodes = process_nodes()
    with nodes.lock:
        nodes.refresh()       one query; five more if something changed
        nodes.views, nodes.live

What is kept is never older than the last refresh. Of a change that commits during a refresh, some
rows may be read before and some after it; the next refresh reads that node again. The commit of a
plan checks the rows under lock in any case, so such a node costs a placement another pass at most.
`docs/decisions/0016-what-is-kept-until-the-inventory-changes.md` has the reasons.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass, field
from threading import Lock
from uuid import UUID

from django.db import connection

from portal.planning.changes import READ_AGAIN_AFTER, ChangeMark, changes_since
from portal.planning.node_views import NodeRecord, node_records, node_views
from portal.planning.running import LiveAllocation
from scheduler.core.model.snapshot import NodeView

# Above this part of the nodes, all are read: the queries are shorter.
READ_ALL_ABOVE = 0.5


@dataclass(slots=True)
class NodeCache:
    """The nodes of one database. For one thread at a time: hold `lock`."""

    lock: Lock = field(default_factory=Lock)
    views: tuple[NodeView, ...] = ()
    live: tuple[LiveAllocation, ...] = ()
    """Live allocations, in no order."""
    _records: dict[UUID, NodeRecord] = field(default_factory=dict)
    _mark: ChangeMark | None = None
    _refreshed_at: float = 0.0

    def refresh(self) -> None:
        begun = time.monotonic()
        is_recent = begun - self._refreshed_at < READ_AGAIN_AFTER.total_seconds()
        changes = changes_since(self._mark if is_recent else None)
        if changes.nodes is None or len(changes.nodes) > READ_ALL_ABOVE * len(self._records):
            self._keep(node_records())
        elif changes.nodes:
            self._keep(self._without(changes.nodes) | node_records(changes.nodes))
        # Last: a refresh that failed has read nothing.
        self._mark = changes.mark
        self._refreshed_at = begun

    def _without(self, nodes: Collection[UUID]) -> dict[UUID, NodeRecord]:
        return {pk: record for pk, record in self._records.items() if pk not in nodes}

    def _keep(self, records: dict[UUID, NodeRecord]) -> None:
        self._records = records
        self.views = node_views(records.values())
        self.live = tuple(row for record in records.values() for row in record.live)


_by_database: dict[tuple[str, ...], NodeCache] = {}


def process_nodes() -> NodeCache:
    """The cache of this process for the database in use."""
    settings = connection.settings_dict
    key = tuple(str(settings.get(name, "")) for name in ("ENGINE", "HOST", "PORT", "NAME"))
    return _by_database.setdefault(key, NodeCache())


def clear_all() -> None:
    """Drop the caches of every database."""
    _by_database.clear()
