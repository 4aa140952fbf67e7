"""Pages by cursor: each begins after a row, so pages do not shift while rows come and go."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from portal.database.kept_queries import KeptSelect, ListOf
from portal.jobs.models import Job

SIZE = 50
MARK = "~"
_FULL: KeptSelect[Job] = KeptSelect(
    lambda keys: Job.objects.filter(pk__in=keys).select_related("project", "owner").order_by(),
    ListOf(Job._meta.pk),
)
# 18 digits fit every database's bigint.
DIGITS = 18


@dataclass(frozen=True, slots=True)
class Page:
    """Rows, and the cursors of the pages before and after it, "" where there is none."""

    rows: list[Job]
    before: str = ""
    after: str = ""


def page_of(
    rows: QuerySet[Job],
    sorting: tuple[str, ...],
    *,
    after: str = "",
    before: str = "",
    size: int = SIZE,
) -> Page:
    """The rows after one cursor, or before the other. An invalid cursor gives the first page.

    `sorting`: columns without nulls, the last one unique.
    """
    backwards = bool(before)
    order = tuple(_reversed(name) for name in sorting) if backwards else sorting
    at = _read(before or after, sorting)
    keys = rows.filter(_beyond(order, at)).order_by(*order).select_related(None)
    found = list(keys.only(*_columns(rows, order))[: size + 1])
    more, found = len(found) > size, found[:size]
    if backwards:
        found.reverse()
    if not found:
        return Page([])
    first, last = _cursor(found[0], sorting), _cursor(found[-1], sorting)
    has_before = more if backwards else bool(at)
    has_after = bool(at) if backwards else more
    return Page(_full_rows(found), first if has_before else "", last if has_after else "")


def _columns(rows: QuerySet[Job], order: tuple[str, ...]) -> list[str]:
    """Only the sort columns: a database that sorts whole rows carries them along."""
    names = {name.removeprefix("-") for name in order} | {"id"}
    return sorted(names - set(rows.query.annotations))


def _full_rows(rows: list[Job]) -> list[Job]:
    """The same jobs with all their columns, in the same order. One query."""
    found = {job.pk: job for job in _FULL.rows([job.pk for job in rows])}
    return [found[job.pk] for job in rows if job.pk in found]


def _reversed(name: str) -> str:
    return name[1:] if name.startswith("-") else f"-{name}"


def _beyond(order: tuple[str, ...], at: list[Any]) -> Q:
    """The rows that follow the one with these values in this order."""
    later, same = Q(), Q()
    for name, value in zip(order, at, strict=False):
        column = name.removeprefix("-")
        side = "lt" if name.startswith("-") else "gt"
        later |= same & Q(**{f"{column}__{side}": value})
        same &= Q(**{column: value})
    return later


def _cursor(row: Job, sorting: tuple[str, ...]) -> str:
    values = [getattr(row, name.removeprefix("-")) for name in sorting]
    return MARK.join(v.isoformat() if isinstance(v, datetime) else str(v) for v in values)


def _read(cursor: str, sorting: tuple[str, ...]) -> list[Any]:
    parts = cursor.split(MARK)
    if len(parts) != len(sorting):
        return []
    values = [_value(part, name) for part, name in zip(parts, sorting, strict=True)]
    return [] if None in values else values


def _value(text: str, name: str) -> Any:
    if not name.endswith("_at"):
        return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else None
    try:
        moment = parse_datetime(text)
    except ValueError:
        return None
    # Far years do not fit a database in every time zone.
    if moment is None or timezone.is_naive(moment) or not 1970 <= moment.year < 2200:
        return None
    return moment
