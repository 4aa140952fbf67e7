"""The seconds of an allocation inside a window, as integer SQL for both databases.

An allocation counts whole seconds from the moment it was bound. For edges at whole seconds this is
the same as if it had been bound at the next whole second and had ended `used_seconds` later, so its
seconds between two edges are the overlap of two integer intervals.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import (
    BigIntegerField,
    Case,
    Expression,
    F,
    Func,
    IntegerField,
    Q,
    Value,
    When,
)
from django.db.models.functions import Greatest, Least

SECOND = timedelta(seconds=1)


class NextSecond(Func):
    """A moment rounded up to whole seconds since 1970."""

    arity = 1
    output_field = BigIntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **more: Any) -> Any:
        template = "CEIL(EXTRACT(EPOCH FROM %(expressions)s))::bigint"
        return super().as_sql(compiler, connection, template=template, **more)

    def as_sqlite(self, compiler: Any, connection: Any, **more: Any) -> Any:
        # SQLite stores moments as text. strftime would round the fraction, so it is cut off.
        template = (
            "(CAST(strftime('%%%%s', substr(%(expressions)s, 1, 19)) AS INTEGER)"
            " + (CAST(substr(%(expressions)s, 21) AS INTEGER) > 0))"
        )
        return super().as_sql(compiler, connection, template=template, **more)


class ThisSecond(Func):
    """A moment rounded down to whole seconds since 1970."""

    arity = 1
    output_field = BigIntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **more: Any) -> Any:
        template = "FLOOR(EXTRACT(EPOCH FROM %(expressions)s))::bigint"
        return super().as_sql(compiler, connection, template=template, **more)

    def as_sqlite(self, compiler: Any, connection: Any, **more: Any) -> Any:
        template = "CAST(strftime('%%%%s', substr(%(expressions)s, 1, 19)) AS INTEGER)"
        return super().as_sql(compiler, connection, template=template, **more)


BOUND_SECOND = NextSecond("bound_at")
ENDED_SECOND = BOUND_SECOND + F("used_seconds")


def floor_second(at: datetime) -> datetime:
    """The moment without its fraction of a second."""
    return at.replace(microsecond=0)


def epoch_seconds(at: datetime) -> int:
    """Whole seconds since 1970, rounded down."""
    return int(floor_second(at).timestamp())


def overlaps(start: datetime, end: datetime) -> Q:
    """Selects allocations that overlap [start, end)."""
    ends_later = Q(released_at__isnull=True) | Q(released_at__gt=floor_second(start))
    return ends_later & Q(bound_at__lt=floor_second(end))


def lease_unit_seconds(start: datetime, end: datetime) -> Expression:
    """The unit-seconds of an allocation in [start, end), which it must overlap."""
    until = Value(epoch_seconds(end))
    last = Case(When(released_at__isnull=True, then=until), default=Least(ENDED_SECOND, until))
    return F("units") * (last - Greatest(BOUND_SECOND, Value(epoch_seconds(start))))


class BucketOf(Func):
    """How many of the ascending edges are at or before a moment; all of them where it is NULL."""

    arity = 1
    output_field = IntegerField()

    def __init__(self, column: str, edges: tuple[datetime, ...]) -> None:
        super().__init__(column)
        self.edges = edges

    def as_postgresql(self, compiler: Any, connection: Any, **more: Any) -> Any:
        sql, parameters = compiler.compile(self.source_expressions[0])
        text = f"COALESCE(WIDTH_BUCKET({sql}, %s::timestamptz[]), %s)"
        return text, (*parameters, list(self.edges), len(self.edges))


def edge_index(column: str, edges: Sequence[datetime]) -> Expression:
    """How many of the ascending `edges` are at or before the column's moment; all of them where it
    has none."""
    if connection.vendor == "postgresql":
        return BucketOf(column, tuple(edges))
    return _place(column, edges, 0, len(edges))


def _place(column: str, edges: Sequence[datetime], first: int, last: int) -> Expression:
    """By binary search."""
    if first == last:
        return Value(first, output_field=IntegerField())
    middle = (first + last) // 2
    is_earlier = When(**{f"{column}__lt": edges[middle]}, then=_place(column, edges, first, middle))
    return Case(is_earlier, default=_place(column, edges, middle + 1, last))
