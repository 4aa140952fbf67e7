"""Many rows of a model, written by one statement whose text is made once.

On PostgreSQL the values travel as one array for each column, so that the text is the same for any
number of rows. Django makes an expression for each value, and the text anew each time: a fifth of
what reports of nodes cost the web process. SQLite has no arrays; there Django writes the rows.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, TypeAlias, TypeVar

from django.db import connection
from django.db.models import Field, Model, QuerySet

from portal.database.prepared import prepared_cursor

Row = TypeVar("Row", bound=Model)
AnyField: TypeAlias = "Field[Any, Any]"


def rows_update(
    model: type[Row],
    rows: Iterable[Row],
    names: Sequence[str],
    *,
    status: str | None = None,
) -> int:
    """Write these fields of the rows, as they are in memory. Returns how many rows were written.

    `status`: only rows that have this status in the database.
    """
    rows = list(rows)
    if not rows:
        return 0
    guard = {} if status is None else {"status": str(status)}
    if connection.vendor != "postgresql":
        return _update_by_django(model._default_manager.filter(**guard), rows, names)
    fields, keys = _fields(model, tuple(names)), _fields(model, tuple(guard))
    arrays = _arrays(rows, (model._meta.pk, *fields), is_added=False)
    with prepared_cursor() as cursor:
        cursor.execute(_update_text(model, fields, keys), [*arrays, *guard.values()])
        count: int = cursor.rowcount
    return count


def rows_insert(model: type[Row], rows: Sequence[Row]) -> int:
    """Insert rows whose primary keys the database counts. Returns the greatest of them, 0 if there
    are none; the rows do not learn theirs."""
    if not rows:
        return 0
    if connection.vendor != "postgresql":
        return max(int(row.pk) for row in model._default_manager.bulk_create(rows))
    fields = _inserted_fields(model)
    with prepared_cursor() as cursor:
        cursor.execute(_insert_text(model, fields), _arrays(rows, fields, is_added=True))
        return max(int(key) for (key,) in cursor.fetchall())


def rows_add(model: type[Row], rows: Sequence[Row]) -> None:
    """Insert rows, as `bulk_create` does. The caller has given them their primary keys, or does not
    need to know them."""
    if not rows:
        return
    if connection.vendor != "postgresql":
        model._default_manager.bulk_create(rows)
        return
    key = model._meta.pk
    is_given = all(getattr(row, key.attname) is not None for row in rows)
    fields = (key, *_inserted_fields(model)) if is_given else _inserted_fields(model)
    with prepared_cursor() as cursor:
        cursor.execute(_add_text(model, fields), _arrays(rows, fields, is_added=True))
    for row in rows:
        row._state.adding, row._state.db = False, connection.alias


def _update_by_django(written: QuerySet[Row], rows: list[Row], names: Sequence[str]) -> int:
    """One plain UPDATE if all rows get the same values."""
    first, *others = rows
    values = {name: getattr(first, name) for name in names}
    if all(getattr(row, name) == values[name] for row in others for name in names):
        return written.filter(pk__in=[row.pk for row in rows]).update(**values)
    return written.bulk_update(rows, names)


@cache
def _fields(model: type[Model], names: tuple[str, ...]) -> tuple[AnyField, ...]:
    by_name = {field.name: field for field in model._meta.concrete_fields}
    return tuple(by_name[name] for name in names)


@cache
def _inserted_fields(model: type[Model]) -> tuple[AnyField, ...]:
    return tuple(field for field in model._meta.concrete_fields if not field.primary_key)


def _arrays(rows: Sequence[Model], fields: Sequence[AnyField], *, is_added: bool) -> list[Any]:
    """The values of each field, as the database takes them."""
    return [
        [_plain(field.get_db_prep_save(field.pre_save(row, is_added), connection)) for row in rows]
        for field in fields
    ]


def _plain(value: Any) -> Any:
    """A member of an enum as its text: an array has values of one type."""
    return str(value) if isinstance(value, StrEnum) else value


@cache
def _update_text(
    model: type[Model], fields: tuple[AnyField, ...], keys: tuple[AnyField, ...]
) -> str:
    """`keys`: the fields that must have a value, given behind the arrays."""
    pk = model._meta.pk
    aliases = [f"v{number}" for number, _ in enumerate(fields)]
    written = ", ".join(
        f"{_column(field)} = given.{alias}" for field, alias in zip(fields, aliases, strict=True)
    )
    conditions = "".join(f" AND kept.{_column(key)} = %s" for key in keys)
    return (
        f"UPDATE {_table(model)} AS kept SET {written}"  # noqa: S608 - names of our own
        f" FROM UNNEST({_array_types((pk, *fields))}) AS given(pk, {', '.join(aliases)})"
        f" WHERE kept.{_column(pk)} = given.pk{conditions}"
    )


@cache
def _insert_text(model: type[Model], fields: tuple[AnyField, ...]) -> str:
    return f"{_add_text(model, fields)} RETURNING {_column(model._meta.pk)}"


@cache
def _add_text(model: type[Model], fields: tuple[AnyField, ...]) -> str:
    columns = ", ".join(map(_column, fields))
    # Names of our own tables and columns, no values.
    return (
        f"INSERT INTO {_table(model)} ({columns})"  # noqa: S608
        f" SELECT * FROM UNNEST({_array_types(fields)})"
    )


def _array_types(fields: Iterable[AnyField]) -> str:
    """A parameter for each field. Without the length of a column: a cast to it would cut off what
    is too long, where the column itself refuses it."""
    return ", ".join(f"%s::{_type(field)}[]" for field in fields)


def _type(field: AnyField) -> str:
    full = field.rel_db_type(connection) if field.primary_key else field.db_type(connection)
    return str(full).partition("(")[0]


def _table(model: type[Model]) -> str:
    return connection.ops.quote_name(model._meta.db_table)


def _column(field: AnyField) -> str:
    return connection.ops.quote_name(str(field.column))
