"""A lease's whole seconds in SQL, as integers in both databases, so that sums are the database's.

A lease covers the second that ends k seconds after it was bound. Where time is cut at whole seconds
only, it is as if it was bound at the next whole second and ended `used_seconds` later: its seconds
between two edges are those that two intervals of integers have in common.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

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
    """The first whole second since 1970 that is no earlier than a moment."""

    arity = 1
    output_field = BigIntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **more: Any) -> Any:
        template = "CEIL(EXTRACT(EPOCH FROM %(expressions)s))::bigint"
        return super().as_sql(compiler, connection, template=template, **more)

    def as_sqlite(self, compiler: Any, connection: Any, **more: Any) -> Any:
        # Moments are text here. strftime rounds a fraction, so it is given none.
        template = (
            "(CAST(strftime('%%%%s', substr(%(expressions)s, 1, 19)) AS INTEGER)"
            " + (CAST(substr(%(expressions)s, 21) AS INTEGER) > 0))"
        )
        return super().as_sql(compiler, connection, template=template, **more)


BOUND_SECOND = NextSecond("bound_at")
ENDED_SECOND = BOUND_SECOND + F("used_seconds")


def floor_second(at: datetime) -> datetime:
    """The moment without its last fraction of a second."""
    return at.replace(microsecond=0)


def epoch_seconds(at: datetime) -> int:
    """Its whole seconds since 1970."""
    return int(floor_second(at).timestamp())


def overlaps(start: datetime, end: datetime) -> Q:
    """The leases that have something in [start, end)."""
    ends_later = Q(released_at__isnull=True) | Q(released_at__gt=floor_second(start))
    return ends_later & Q(bound_at__lt=floor_second(end))


def lease_unit_seconds(start: datetime, end: datetime) -> Expression:
    """Unit-seconds of a lease in [start, end), with which it must overlap."""
    until = Value(epoch_seconds(end))
    last = Case(When(released_at__isnull=True, then=until), default=Least(ENDED_SECOND, until))
    return F("units") * (last - Greatest(BOUND_SECOND, Value(epoch_seconds(start))))


def edge_index(column: str, edges: Sequence[datetime]) -> Expression:
    """How many of `edges`, which grow, are no later than the column's moment: halved each time, as
    a row is compared with few of many."""
    return _place(column, edges, 0, len(edges))


def _place(column: str, edges: Sequence[datetime], first: int, last: int) -> Expression:
    if first == last:
        return Value(first, output_field=IntegerField())
    middle = (first + last) // 2
    is_earlier = When(**{f"{column}__lt": edges[middle]}, then=_place(column, edges, first, middle))
    return Case(is_earlier, default=_place(column, edges, middle + 1, last))
