"""After a restore: what the lost time may have used up is never given out again."""

from dataclasses import dataclass

from django.apps import apps
from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import AutoField, F
from django.utils import timezone

from portal.inventory.models import InventoryVersion, JoinToken, Node
from portal.leases.models import TaskLease
from portal.planning.changes import everything_changed
from scheduler.core.model.states import NodeStatus


@dataclass(frozen=True, slots=True)
class Counter:
    """The numbers that a table gives to its rows."""

    table: str
    column: str
    last: int


def counters() -> list[Counter]:
    """Of every table that exists, with the last number that was given."""
    tables = set(connection.introspection.table_names())
    keys = [
        (model._meta.db_table, str(model._meta.pk.column))
        for model in apps.get_models(include_auto_created=True)
        if isinstance(model._meta.pk, AutoField) and model._meta.db_table in tables
    ]
    with connection.cursor() as cursor:
        return [Counter(table, column, _last(cursor, table, column)) for table, column in keys]


def numbers_advance(before: list[Counter], margin: int) -> None:
    """No number is given twice: neither of a job, nor of an attempt, which is its fence.

    `before`: the counters of the database that was replaced, which may have been further.
    """
    used = {counter.table: counter.last for counter in before}
    with connection.cursor() as cursor:
        for counter in counters():
            if counter.last or used.get(counter.table):
                last = max(counter.last + margin, used.get(counter.table, 0))
                _advance(cursor, counter, last)


def rows_settle(margin: int) -> None:
    """Ask every node what it runs, and end what was under way when the database was saved."""
    with transaction.atomic():
        now = timezone.now()
        nodes = Node.objects.exclude(status__in=[NodeStatus.RETIRED, NodeStatus.ENROLLED])
        nodes.update(restored_at=now, epoch=F("epoch") + margin, drive_due=True)
        # A node in contact gets the usual time until it is unreachable, and its ranks theirs.
        nodes.filter(status=NodeStatus.ONLINE).update(last_seen_at=now, contact_since=now)
        InventoryVersion.objects.update(number=F("number") + margin)
        everything_changed()
        TaskLease.objects.update(token="", expires_at=None, rung=True, continuation=None)
        # It may have been used, or ended, since.
        JoinToken.objects.filter(used_at=None).delete()
        Session.objects.all().delete()


def _last(cursor: CursorWrapper, table: str, column: str) -> int:
    if connection.vendor == "sqlite":
        cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = %s", [table])
        row = cursor.fetchone()
        return row[0] if row else 0
    cursor.execute("SELECT pg_get_serial_sequence(%s, %s)", [table, column])
    (sequence,) = cursor.fetchone()
    cursor.execute(f"SELECT last_value, is_called FROM {sequence}")  # noqa: S608 - from the catalogue
    last, is_called = cursor.fetchone()
    return int(last) if is_called else 0


def _advance(cursor: CursorWrapper, counter: Counter, last: int) -> None:
    if connection.vendor == "sqlite":
        cursor.execute("DELETE FROM sqlite_sequence WHERE name = %s", [counter.table])
        cursor.execute(
            "INSERT INTO sqlite_sequence (name, seq) VALUES (%s, %s)", [counter.table, last]
        )
        return
    sequence = "pg_get_serial_sequence(%s, %s)"
    cursor.execute(f"SELECT setval({sequence}, %s)", [counter.table, counter.column, last])
