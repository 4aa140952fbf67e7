"""The version of the inventory: it changes with what nodes *are*, not with what runs on them.

    inventory_version()  ─▶ one number; equal numbers: nothing that is derived from the columns
                            below has changed, so `portal.planning.inventory_view` keeps it
    version_column()     ─▶ the same, to be read together with rows of another table

Triggers of the database count, so that a bulk update, another program or a correction by hand
counts as well. Each node has a counter of its own, which its transactions change while they hold
the node anyway: reports of different nodes do not wait for each other. The triggers are made again
after each migration, because SQLite drops those of a table that a migration rebuilds.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Subquery, Sum, Value
from django.db.models.functions import Coalesce

from portal.database.triggers import WatchedTable, json_key, plain_columns, trigger_statements
from portal.inventory.models import Gpu, InventoryVersion, Node
from scheduler.core.model.states import NodeStatus

COUNTERS = InventoryVersion._meta.db_table


def inventory_version() -> int:
    """Read it before the rows that are derived from it: it may be older than they, never newer."""
    with connection.cursor() as cursor:
        # Django makes the text of a sum anew each time, for every submit.
        cursor.execute(f"SELECT SUM(number) FROM {COUNTERS}")  # noqa: S608 - our own table
        (version,) = cursor.fetchone()
    return int(version or 0)


def version_column() -> Any:
    """For `annotate`: the version as a column of each row, read when the rows are."""
    counters = InventoryVersion.objects.order_by().values(everything=Value(1))
    total = counters.annotate(total=Sum("number")).values("total")
    return Coalesce(Subquery(total), 0)


def make_triggers(using: str = "default", **_: Any) -> None:
    """Make the triggers, or make them again. The receiver of `post_migrate`."""
    connection = connections[using]
    if COUNTERS not in connection.introspection.table_names():
        return  # migrated back to before there were any
    with connection.cursor() as cursor:
        for statement in _statements(connection):
            cursor.execute(statement)


def _statements(connection: BaseDatabaseWrapper) -> Iterator[str]:
    # Of a status counts whether the node is retired; of the facts, one number.
    nodes = WatchedTable(
        Node._meta.db_table,
        plain_columns("fabric", "cpu_milli", "memory_mib", "disk_mib", "labels", "taints")
        | {
            "status": (f"({{row}}.status = '{NodeStatus.RETIRED}')",),
            "facts": (json_key(connection, "facts", "share_clients"),),
        },
    )
    gpus = WatchedTable(
        Gpu._meta.db_table,
        plain_columns("node_id", "board", "product_name", "memory_mib", "profiles"),
    )
    # A node has one id; a GPU that moved counts for both of its nodes.
    yield from trigger_statements(
        connection, "counts", nodes, lambda rows: _count([f"{rows[0]}.id"])
    )
    yield from trigger_statements(
        connection, "counts", gpus, lambda rows: _count([f"{row}.node_id" for row in rows])
    )


def _count(nodes: Sequence[str]) -> str:
    """Statements that add 1 to the counter of each of these nodes."""
    # Names of our own tables and columns, no values.
    one_more = (
        f"INSERT INTO {COUNTERS} (node_id, number) VALUES (%s, 1)"  # noqa: S608
        f" ON CONFLICT (node_id) DO UPDATE SET number = {COUNTERS}.number + 1;"
    )
    return " ".join(one_more % node for node in nodes)
