"""Which nodes the planner has to read again: `changes_since(mark)`.

A node's view (`portal.planning.node_rows`) depends on columns of several tables. Triggers of the
database write a row of `NodeChange` for each change of one of them, in its transaction and beside
the row that changed: nobody waits for anybody, and a change that is rolled back was never there.

Transactions do not commit in the order in which they begin. On PostgreSQL a mark is the oldest
transaction that was still running when the changes were read: everything before it was over, and
so was seen; what carries its number or a later one is read again. SQLite has one writer at a time,
and its rows are numbered in the order of commits.

To have the planner read another column, add it to `watched_tables`, as
`tests/integration/test_node_cache.py` will ask you to.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from portal.accounts.models import Project, User
from portal.allocations.models import Allocation
from portal.database.triggers import (
    EVENTS,
    WatchedTable,
    Work,
    json_key,
    plain_columns,
    trigger_statements,
)
from portal.inventory.models import Gpu, Node, Slice
from portal.jobs.models import Attempt, Job, Replica
from portal.planning.models import NodeChange
from portal.planning.usage import SETTLED_AFTER

CHANGES = NodeChange._meta.db_table
# A process that has not looked for so long reads every node again.
READ_AGAIN_AFTER = SETTLED_AFTER
# Longer than a transaction lasts and a process may keep what it read.
RETENTION = READ_AGAIN_AFTER + SETTLED_AFTER + timedelta(minutes=1)
EVERY_NODE = "SELECT CAST(NULL AS uuid) AS node_id"
NODE_FACTS = (
    *("launchers", "agent_version", "share_clients", "blocks", "volume_roots", "rdma"),
    *("cuda_version", "driver_version", "architecture"),
    *("overlay", "git_hosts", "limits_egress"),
)


@dataclass(frozen=True, slots=True)
class ChangeMark:
    """Up to where the changes were read."""

    server: str
    """The start of the database's server: another one may number its transactions differently."""
    number: int


@dataclass(frozen=True, slots=True)
class NodeChanges:
    nodes: frozenset[UUID] | None
    """None: every node."""
    mark: ChangeMark | None
    """For the next call. None in a transaction that has changed rows itself: what was seen here may
    be rolled back."""


def changes_since(mark: ChangeMark | None) -> NodeChanges:
    """What may have changed since that mark. One query.

    Call it before the rows are read: what changes meanwhile is then reported again by the next
    call."""
    read = _postgresql_changes if connection.vendor == "postgresql" else _sqlite_changes
    server, number, nodes, is_lasting = read(mark.number if mark else 0)
    here = ChangeMark(server, number) if is_lasting else None
    if mark is None or mark.server != server or number < mark.number or None in nodes:
        return NodeChanges(None, here)
    return NodeChanges(frozenset(UUID(str(node)) for node in nodes), here)


def changes_purge(now: datetime) -> None:
    NodeChange.objects.filter(at__lt=now - RETENTION).delete()


def everything_changed() -> None:
    """Have every process read every node again."""
    NodeChange.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute(_insert(connection, EVERY_NODE))


def make_triggers(using: str = "default", **_: Any) -> None:
    """Make the triggers, or make them again. The receiver of `post_migrate`."""
    database = connections[using]
    if CHANGES not in database.introspection.table_names():
        return  # migrated back to before there were any
    with database.cursor() as cursor:
        for table, work, events in watched_tables(database):
            described = database.introspection.get_table_description(cursor, table.name)
            if not set(table.columns) <= {column.name for column in described}:
                continue  # migrated back to before it had them all
            for statement in trigger_statements(database, "replans", table, work, events):
                cursor.execute(statement)


# The server, the number of a mark, the nodes, and whether nothing of it may be rolled back.
_Found = tuple[str, int, set[Any], bool]


def _postgresql_changes(number: int) -> _Found:
    # A constant: the name of our own table.
    changed = f'SELECT DISTINCT node_id FROM {CHANGES} WHERE "transaction" >= %s'  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_postmaster_start_time()::text,"
            f" pg_snapshot_xmin(pg_current_snapshot())::text::bigint, ARRAY({changed}),"
            # A transaction has a number from its first change on.
            " pg_current_xact_id_if_assigned() IS NULL",
            [number],
        )
        server, oldest_running, nodes, is_lasting = cursor.fetchone()
    return server, oldest_running, set(nodes), is_lasting


def _sqlite_changes(number: int) -> _Found:
    with connection.cursor() as cursor:
        cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = %s", [CHANGES])
        row = cursor.fetchone()
        # A constant: the name of our own table.
        cursor.execute(f"SELECT DISTINCT node_id FROM {CHANGES} WHERE id > %s", [number])  # noqa: S608
        nodes = {node for (node,) in cursor.fetchall()}
    return "", row[0] if row else 0, nodes, not connection.in_atomic_block


def watched_tables(
    database: BaseDatabaseWrapper,
) -> Iterator[tuple[WatchedTable, Work, Sequence[str]]]:
    """Tables with the columns that count, what their triggers do, and on which events.

    The product does not change jobs, attempts, projects and users in these columns while devices
    are allocated: they are here for corrections by hand, after which every node is read again.
    """
    node, gpu, slice_, allocation, replica = (
        model._meta.db_table for model in (Node, Gpu, Slice, Allocation, Replica)
    )

    def changed(nodes_of: Callable[[str], str]) -> Work:
        return lambda rows: _insert(database, " UNION ".join(map(nodes_of, rows)))

    always, updates = tuple(EVENTS), ("UPDATE",)
    node_columns = (
        *("name", "status", "schedulable", "cordon_reason", "holding_since", "restored_at"),
        *("labels", "taints", "topology", "fabric", "cpu_milli", "memory_mib", "disk_mib"),
    )
    facts = {"facts": tuple(json_key(database, "facts", key) for key in NODE_FACTS)}
    work = changed(lambda row: f"SELECT {row}.id AS node_id")
    yield WatchedTable(node, plain_columns(*node_columns) | facts), work, always

    gpu_columns = (
        *("node_id", "index", "board", "product_name", "memory_mib", "desired_mode", "health"),
        *("busy", "numa_node", "profiles", "pinned", "settles_at"),
    )
    work = changed(lambda row: f"SELECT {row}.node_id AS node_id")
    yield WatchedTable(gpu, plain_columns(*gpu_columns)), work, always

    slice_columns = (
        *("gpu_id", "kind", "profile", "start", "size", "memory_mib", "threads", "clients"),
        *("status", "busy"),
    )
    # Names of our own tables and columns, no values.
    work = changed(lambda row: f"SELECT node_id FROM {gpu} WHERE id = {row}.gpu_id")  # noqa: S608
    yield WatchedTable(slice_, plain_columns(*slice_columns)), work, always

    allocation_columns = (
        *("replica_id", "slice_id", "project_id", "user_id", "units", "cpu_milli", "memory_mib"),
        *("status", "bound_at"),
    )
    # Nodes by the device and by the replica: the same, unless somebody changed one by hand.
    work = changed(
        lambda row: (
            f"SELECT node_id FROM {gpu} WHERE id ="  # noqa: S608
            f" (SELECT gpu_id FROM {slice_} WHERE id = {row}.slice_id)"
            f" UNION SELECT node_id FROM {replica}"
            f" WHERE id = {row}.replica_id AND node_id IS NOT NULL"
        )
    )
    yield WatchedTable(allocation, plain_columns(*allocation_columns)), work, always

    work = changed(lambda row: f"SELECT {row}.node_id AS node_id WHERE {row}.node_id IS NOT NULL")
    yield WatchedTable(replica, plain_columns("node_id", "attempt_id", "rank")), work, updates

    by_hand = {
        Job: ("cpu_milli", "memory_mib", "disk_mib"),
        Attempt: ("job_id", "joined_replicas"),
        Project: ("slug",),
        User: ("username",),
    }
    for model, columns in by_hand.items():
        table = WatchedTable(model._meta.db_table, plain_columns(*columns))
        yield table, lambda rows: _insert(database, EVERY_NODE), updates


def _insert(database: BaseDatabaseWrapper, nodes: str) -> str:
    """`nodes`: a query with a column `node_id`."""
    number, now = "0", "strftime('%Y-%m-%d %H:%M:%f', 'now')"
    if database.vendor == "postgresql":
        number, now = "pg_current_xact_id()::text::bigint", "now()"
    return (
        f'INSERT INTO {CHANGES} ("transaction", node_id, at)'  # noqa: S608
        f" SELECT {number}, node_id, {now} FROM ({nodes}) AS found;"
    )
