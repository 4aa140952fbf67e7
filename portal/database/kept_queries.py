"""Queries whose text is made once, and which are asked with other values each time.

    TOKENS = KeptSelect(lambda key: ApiToken.objects.filter(token_key=key), CharField())
    TOKENS.rows("1a2b")  ─▶ list(ApiToken.objects.filter(token_key="1a2b"))

Django makes the text of a query, and how its rows are read, anew each time: half of what a report
of a node or a submit over REST cost the web process. The query set stays the one definition: with
`Slot`s in place of the values it gives the text, which is kept for each number of values in a list.
The text is prepared, so PostgreSQL does not plan it each time either (`prepared.py`).
Only for what is asked many times a second, and only on PostgreSQL: elsewhere Django asks, unless a
test keeps texts there, too.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import Expression, Field, Model, QuerySet
from django.db.models.query import (
    FlatValuesListIterable,
    ModelIterable,
    ValuesListIterable,
    get_related_populators,
)
from django.db.models.sql import UpdateQuery
from django.db.transaction import TransactionManagementError

from portal.database.prepared import literal, prepared_cursor

SelectedRow = TypeVar("SelectedRow")
AnyField: TypeAlias = "Field[Any, Any]"
Row: TypeAlias = Sequence[Any]
# A longer list is asked by Django itself.
LONGEST_LIST = 64
KEPT_ON = frozenset({"postgresql"})
PLACEHOLDER = re.compile("%%|%s")
# A text is one of a database, and of so many values in each list.
TextKey: TypeAlias = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class ListOf:
    """In place of a field: a list of values of that field."""

    field: AnyField


SlotField: TypeAlias = "AnyField | ListOf"


class Slot(Expression):
    """Stands for a value that each call brings: number `item` of the list at `place`, or the value
    there."""

    def __init__(self, place: int, item: int | None, output_field: AnyField) -> None:
        super().__init__(output_field=output_field)
        self.place, self.item = place, item

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return "%s", (self,)

    def value(self, values: Row) -> Any:
        value = values[self.place]
        if self.item is not None:
            # A text has room for more items than there are: the last one is there again.
            value = value[min(self.item, len(value) - 1)]
        if value is None:
            raise ValueError("the text of a kept query compares with a value: NULL equals nothing")
        return self.output_field.get_db_prep_value(value, connection)


@dataclass(frozen=True, slots=True)
class _Text:
    """A statement with its slots among its parameters."""

    sql: str
    parameters: tuple[Any, ...]

    @contextmanager
    def execute(self, values: Row) -> Iterator[Any]:
        """The cursor, with the answer for these values."""
        given = [p.value(values) if isinstance(p, Slot) else p for p in self.parameters]
        with prepared_cursor() as cursor:
            cursor.execute(self.sql, given)
            yield cursor


def _text(sql: str, parameters: Iterable[Any]) -> _Text:
    """On PostgreSQL, what is the same in every call is part of the text: its plan counts with it,
    and it needs no type."""
    if connection.vendor != "postgresql":
        return _Text(sql, tuple(parameters))
    left, slots = iter(parameters), list[Slot]()

    def written(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return found[0]
        value = next(left)
        if isinstance(value, Slot):
            slots.append(value)
            return found[0]
        return literal(value).replace("%", "%%")

    return _Text(PLACEHOLDER.sub(written, sql), tuple(slots))


class _Kept:
    """What selects and updates share: the slots, and a text for each number of them."""

    def __init__(self, *fields: SlotField) -> None:
        self._fields = fields

    def _key(self, values: Row) -> TextKey | None:
        """How many slots the lists among the values have; None if no text is kept for these."""
        if connection.vendor not in KEPT_ON:
            return None
        sizes = []
        for field, value in zip(self._fields, values, strict=True):
            if isinstance(field, ListOf):
                if not 0 < len(value) <= LONGEST_LIST:
                    return None
                # A power of two, so that there are few texts.
                sizes.append(1 << (len(value) - 1).bit_length())
        return connection.vendor, tuple(sizes)

    def _slots(self, key: TextKey) -> list[Any]:
        left = list(key[1])
        return [
            [Slot(place, item, field.field) for item in range(left.pop(0))]
            if isinstance(field, ListOf)
            else Slot(place, None, field)
            for place, field in enumerate(self._fields)
        ]


@dataclass(frozen=True, slots=True)
class _Select(Generic[SelectedRow]):
    text: _Text
    is_locking: bool
    read: Callable[[Iterable[Row]], list[SelectedRow]]


class KeptSelect(_Kept, Generic[SelectedRow]):
    def __init__(self, make: Callable[..., QuerySet[Any, SelectedRow]], *fields: SlotField) -> None:
        """`make`: the query set for these values, or for slots in their place: of models, perhaps
        with `select_related`, or of `values_list`. `fields`: of the values, in their order."""
        super().__init__(*fields)
        self._make = make
        self._made: dict[TextKey, _Select[SelectedRow]] = {}

    def rows(self, *values: Any) -> list[SelectedRow]:
        key = self._key(values)
        if key is None:
            return list(self._make(*values))
        kept = self._made.get(key)
        if kept is None:
            kept = self._made[key] = _select(self._make(*self._slots(key)))
        if kept.is_locking and not connection.in_atomic_block:
            raise TransactionManagementError("rows are locked within a transaction")
        with kept.text.execute(values) as cursor:
            return kept.read(cursor.fetchall())


class KeptUpdate(_Kept):
    """An UPDATE of the rows of a query set."""

    def __init__(
        self,
        make: Callable[..., QuerySet[Any]],
        columns: Callable[..., Mapping[str, Any]],
        *fields: SlotField,
        returning: "AnyField | None" = None,
    ) -> None:
        """`make` and `columns` are given the same values: which rows, and what is written.
        `returning`: a field that is not written, for `write_and_read`: a number, a text or a UUID,
        which PostgreSQL gives as it is."""
        super().__init__(*fields)
        self._make, self._columns, self._returning = make, columns, returning
        self._made: dict[TextKey, _Text] = {}

    def write(self, *values: Any) -> int:
        """Returns how many rows were written."""
        key = self._key(values)
        if key is None:
            return self._make(*values).update(**self._columns(*values))
        with self._text(key).execute(values) as cursor:
            return int(cursor.rowcount)

    def write_and_read(self, *values: Any) -> list[Any]:
        """Returns `returning` of the rows that were written: in the same statement, or as it was
        just before where Django asks."""
        if self._returning is None:
            raise TypeError("this update was not told what to return")
        key = self._key(values)
        if key is None:
            found = list(self._make(*values).values_list(self._returning.attname, flat=True))
            return found if self.write(*values) else []
        with self._text(key).execute(values) as cursor:
            return _first_columns(cursor.fetchall())

    def _text(self, key: TextKey) -> _Text:
        if key not in self._made:
            slots = self._slots(key)
            text = _update(self._make(*slots), self._columns(*slots))
            if self._returning is not None:
                column = connection.ops.quote_name(str(self._returning.column))
                text = replace(text, sql=f"{text.sql} RETURNING {column}")
            self._made[key] = text
        return self._made[key]


def _update(rows: QuerySet[Any], columns: Mapping[str, Any]) -> _Text:
    query: Any = rows.query.chain(UpdateQuery)
    query.add_update_values(columns)
    return _text(*query.get_compiler(connection=connection).as_sql())


def _select(rows: QuerySet[Any, SelectedRow]) -> _Select[SelectedRow]:
    compiler: Any = rows.query.get_compiler(connection=connection)
    text = _text(*compiler.as_sql())
    converters = compiler.get_converters([column[0] for column in compiler.select])
    kind = rows._iterable_class
    finish: Callable[[Iterable[Row]], list[Any]]
    if kind is ModelIterable:
        finish = _models(compiler)
    elif kind is FlatValuesListIterable:
        finish = _first_columns
    elif kind is ValuesListIterable:
        finish = _tuples
    else:
        raise TypeError(f"rows of {kind.__name__} are not kept")

    def read(found: Iterable[Row]) -> list[SelectedRow]:
        return finish(_converted(found, converters) if converters else found)

    return _Select(text, bool(rows.query.select_for_update), read)


def _first_columns(found: Iterable[Row]) -> list[Any]:
    return [row[0] for row in found]


def _tuples(found: Iterable[Row]) -> list[Any]:
    return list(map(tuple, found))


def _converted(found: Iterable[Row], converters: Mapping[int, Any]) -> Iterable[Row]:
    for row in map(list, found):
        for position, (convert_by, expression) in converters.items():
            for convert in convert_by:
                row[position] = convert(row[position], expression, connection)
        yield row


def _models(compiler: Any) -> Callable[[Iterable[Row]], list[Any]]:
    """As Django's ModelIterable reads them, but prepared once."""
    of_model = compiler.klass_info
    model: type[Model] = of_model["model"]
    first, end = of_model["select_fields"][0], of_model["select_fields"][-1] + 1
    names = [column[0].target.attname for column in compiler.select[first:end]]
    # The stubs are of a newer Django, which has one argument more.
    populators: Any = get_related_populators
    related = populators(of_model, compiler.select, DEFAULT_DB_ALIAS)
    annotations = tuple(compiler.annotation_col_map.items())

    def read(found: Iterable[Row]) -> list[Any]:
        rows = []
        for row in found:
            made = model.from_db(DEFAULT_DB_ALIAS, names, row[first:end])
            for each in related:
                each.populate(row, made)
            for name, position in annotations:
                setattr(made, name, row[position])
            rows.append(made)
        return rows

    return read
