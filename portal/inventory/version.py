"""The version of the inventory: it changes with what nodes *are*, not with what runs on them.

    inventory_version()  ─▶ one number; equal numbers: nothing that is derived from the columns
                            below has changed, so `portal.planning.inventory_view` keeps it

Triggers of the database count, so that a bulk update, another program or a correction by hand
counts as well. Each node has a counter of its own, which its transactions change while they hold
the node anyway: reports of different nodes do not wait for each other. The triggers are made again
after each migration, because SQLite drops those of a table that a migration rebuilds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Sum

from portal.inventory.models import Gpu, InventoryVersion, Node
from scheduler.core.model.states import NodeStatus

COUNTERS = InventoryVersion._meta.db_table


@dataclass(frozen=True, slots=True)
class WatchedTable:
    """A table, the columns that count, and the column that names the node."""

    name: str
    columns: tuple[str, ...]
    node: str


NODES = WatchedTable(
    Node._meta.db_table,
    ("status", "fabric", "cpu_milli", "memory_mib", "disk_mib", "labels", "taints", "facts"),
    "id",
)
GPUS = WatchedTable(
    Gpu._meta.db_table, ("node_id", "board", "product_name", "memory_mib", "profiles"), "node_id"
)


def inventory_version() -> int:
    """Read it before the rows that are derived from it: it may be older than they, never newer."""
    return InventoryVersion.objects.aggregate(version=Sum("number"))["version"] or 0


def make_triggers(using: str = "default", **_: Any) -> None:
    """Make the triggers, or make them again. The receiver of `post_migrate`."""
    connection = connections[using]
    if COUNTERS not in connection.introspection.table_names():
        return  # migrated back to before there were any
    with connection.cursor() as cursor:
        for statement in _statements(connection):
            cursor.execute(statement)


def _statements(connection: BaseDatabaseWrapper) -> Iterator[str]:
    for table in (NODES, GPUS):
        for event, rows in (("INSERT", ("NEW",)), ("DELETE", ("OLD",)), ("UPDATE", ("NEW", "OLD"))):
            name = f"{table.name}_{event.lower()}_counts"
            head = f"AFTER {event}"
            if event == "UPDATE":
                head += f" OF {', '.join(table.columns)}"
            head += f" ON {table.name} FOR EACH ROW"
            if event == "UPDATE":
                head += f" WHEN ({_differs(table, connection.vendor)})"
            # A GPU that moved counts for both of its nodes; a node has one id.
            counted = rows if table is GPUS else rows[:1]
            yield from MAKERS[connection.vendor](table, name, head, counted)


def _sqlite_trigger(
    table: WatchedTable, name: str, head: str, rows: tuple[str, ...]
) -> Iterator[str]:
    yield f"DROP TRIGGER IF EXISTS {name}"
    yield f"CREATE TRIGGER {name} {head} BEGIN {_count(table, rows)} END"


def _postgresql_trigger(
    table: WatchedTable, name: str, head: str, rows: tuple[str, ...]
) -> Iterator[str]:
    body = f"$body$ BEGIN {_count(table, rows)} RETURN NULL; END $body$"
    yield f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS {body}"
    yield f"CREATE OR REPLACE TRIGGER {name} {head} EXECUTE FUNCTION {name}()"


MAKERS = {"sqlite": _sqlite_trigger, "postgresql": _postgresql_trigger}


def _count(table: WatchedTable, rows: tuple[str, ...]) -> str:
    """Statements that add 1 to the counter of the node of each of these rows."""
    # Names of our own tables and columns, no values.
    one_more = (
        f"INSERT INTO {COUNTERS} (node_id, number) VALUES (%s.{table.node}, 1)"  # noqa: S608
        f" ON CONFLICT (node_id) DO UPDATE SET number = {COUNTERS}.number + 1;"
    )
    return " ".join(one_more % row for row in rows)


def _differs(table: WatchedTable, vendor: str) -> str:
    """Whether an update changed a column that counts."""
    distinct = "IS DISTINCT FROM" if vendor == "postgresql" else "IS NOT"
    return " OR ".join(
        f"{_counted('OLD', column, vendor)} {distinct} {_counted('NEW', column, vendor)}"
        for column in table.columns
    )


def _counted(row: str, column: str, vendor: str) -> str:
    """What counts of a column: of a status, whether the node is retired; of the facts, a number."""
    if column == "status":
        return f"({row}.status = '{NodeStatus.RETIRED}')"
    if column == "facts":
        of_postgresql = f"({row}.facts -> 'share_clients')"
        of_sqlite = f"json_extract({row}.facts, '$.share_clients')"
        return of_postgresql if vendor == "postgresql" else of_sqlite
    return f"{row}.{column}"
