"""Triggers on the changes of chosen columns, for both databases.

    trigger_statements(connection, "counts", WatchedTable(name, {column: values}), work)

A trigger sees what a signal of Django does not: bulk updates, other programs, corrections by hand.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper

# From the rows of an event, "NEW" and "OLD", to statements that each end with a semicolon.
Work = Callable[[Sequence[str]], str]
EVENTS = {"INSERT": ("NEW",), "DELETE": ("OLD",), "UPDATE": ("NEW", "OLD")}


@dataclass(frozen=True, slots=True)
class WatchedTable:
    """A table, and what counts of its rows: by column, SQL with `{row}` for the row."""

    name: str
    columns: Mapping[str, Sequence[str]]


def plain_columns(*columns: str) -> dict[str, Sequence[str]]:
    """These columns count as they are."""
    return {column: (f'{{row}}."{column}"',) for column in columns}


def json_key(connection: BaseDatabaseWrapper, column: str, key: str) -> str:
    """The value of a key of a JSON column."""
    if connection.vendor == "postgresql":
        return f"({{row}}.{column} -> '{key}')"
    return f"json_extract({{row}}.{column}, '$.{key}')"


def trigger_statements(
    connection: BaseDatabaseWrapper,
    label: str,
    table: WatchedTable,
    work: Work,
    events: Sequence[str] = tuple(EVENTS),
) -> Iterator[str]:
    """Statements that make the triggers, or make them again: names, and no values of users."""
    for event in events:
        name = f"{table.name}_{event.lower()}_{label}"
        head = f"AFTER {event}"
        if event == "UPDATE":
            head += " OF " + ", ".join(f'"{column}"' for column in table.columns)
        head += f" ON {table.name} FOR EACH ROW"
        if event == "UPDATE":
            head += f" WHEN ({_differs(connection, table)})"
        yield from MAKERS[connection.vendor](name, head, work(EVENTS[event]))


def _sqlite_trigger(name: str, head: str, work: str) -> Iterator[str]:
    yield f"DROP TRIGGER IF EXISTS {name}"
    yield f"CREATE TRIGGER {name} {head} BEGIN {work} END"


def _postgresql_trigger(name: str, head: str, work: str) -> Iterator[str]:
    body = f"$body$ BEGIN {work} RETURN NULL; END $body$"
    yield f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS {body}"
    yield f"CREATE OR REPLACE TRIGGER {name} {head} EXECUTE FUNCTION {name}()"


MAKERS = {"sqlite": _sqlite_trigger, "postgresql": _postgresql_trigger}


def _differs(connection: BaseDatabaseWrapper, table: WatchedTable) -> str:
    """Whether an update changed something that counts."""
    distinct = "IS DISTINCT FROM" if connection.vendor == "postgresql" else "IS NOT"
    values = [value for column in table.columns.values() for value in column]
    return " OR ".join(
        f"{value.format(row='OLD')} {distinct} {value.format(row='NEW')}" for value in values
    )
