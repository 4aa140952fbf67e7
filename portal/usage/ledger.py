"""How many unit-seconds allocations used inside a window. Everything that shows usage asks here.

An allocation's seconds are whole ones since it was bound, as its row counts them, and a window
takes those that end in it: seconds(to) - seconds(from). So the parts of a window add up to the
whole to the unit, and the whole of an ended allocation is its `units` times its `used_seconds`.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from django.db.models import F, Min, Q, QuerySet, Sum

from portal.jobs.models import Allocation

SECOND = timedelta(seconds=1)
COST = F("units") * F("used_seconds")


@dataclass(frozen=True, slots=True)
class Window:
    """[start, end). What still runs is counted up to `now`, and never beyond the window."""

    start: datetime
    end: datetime
    now: datetime

    @property
    def until(self) -> datetime:
        """Up to where there is something to count."""
        return max(self.start, min(self.end, self.now))


@dataclass(frozen=True, slots=True, order=True)
class Line:
    """Who used what: `board` is the GPU's key in the table of boards, `kind` the slice's."""

    project: int
    user: int
    board: str
    kind: str


def seconds_in(
    bound_at: datetime, released_at: datetime | None, start: datetime, end: datetime
) -> int:
    """The whole seconds of a lease that end in [start, end). `end` is no later than now."""
    last = min(released_at or end, end)
    return max(0, (last - bound_at) // SECOND) - max(0, (min(start, last) - bound_at) // SECOND)


def used_by_line(rows: QuerySet[Allocation], window: Window) -> dict[Line, int]:
    """Unit-seconds by line. Two queries, however many allocations there are."""
    start, until = window.start, window.until
    names = ("project_id", "user_id", "slice__gpu__board", "slice__kind")
    inside = _inside(rows, start, until).order_by().values_list(*names)
    used: dict[Line, int] = defaultdict(int)
    for project, user, board, kind, cost in inside.annotate(cost=Sum(COST)):
        used[Line(project, user, board, kind)] += int(cost)
    for *line, units, bound_at, released_at in _cut(rows, [start, until]).values_list(
        *names, "units", "bound_at", "released_at"
    ):
        used[Line(*line)] += units * seconds_in(bound_at, released_at, start, until)
    return {line: used[line] for line in sorted(used) if used[line]}


def used_by_owner(rows: QuerySet[Allocation], window: Window) -> dict[tuple[int, int], int]:
    """Unit-seconds by project and user. Two queries."""
    start, until = window.start, window.until
    names = ("project_id", "user_id")
    used: dict[tuple[int, int], int] = defaultdict(int)
    inside = _inside(rows, start, until).order_by().values_list(*names)
    for project, user, cost in inside.annotate(cost=Sum(COST)):
        used[project, user] += int(cost)
    _add_cut(used, rows, start, until)
    return dict(used)


def used_and_first(
    rows: QuerySet[Allocation], window: Window
) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int], datetime]]:
    """The same, and when each of them held something for the first time ever. Two queries."""
    start, until = window.start, window.until
    names = ("project_id", "user_id")
    inside = Q(bound_at__gte=start, released_at__gt=start, released_at__lte=until)
    sums = {"first": Min("bound_at"), "cost": Sum(COST, filter=inside)}
    bound = rows.filter(bound_at__isnull=False).order_by().values_list(*names).annotate(**sums)
    used: dict[tuple[int, int], int] = defaultdict(int)
    firsts: dict[tuple[int, int], datetime] = {}
    for project, user, first, cost in bound:
        firsts[project, user] = first
        used[project, user] += int(cost or 0)
    _add_cut(used, rows, start, until)
    return dict(used), firsts


def _add_cut(
    used: dict[tuple[int, int], int],
    rows: QuerySet[Allocation],
    start: datetime,
    until: datetime,
) -> None:
    columns = ("project_id", "user_id", "units", "bound_at", "released_at")
    for project, user, units, bound_at, released_at in _cut(rows, [start, until]).values_list(
        *columns
    ):
        used[project, user] += units * seconds_in(bound_at, released_at, start, until)


def used_between(rows: QuerySet[Allocation], edges: Sequence[datetime], now: datetime) -> list[int]:
    """Unit-seconds between each two neighbours of `edges`, which grow. Two queries."""
    parts = [(start, max(start, min(end, now))) for start, end in pairwise(edges)]
    sums = {
        f"part_{i}": Sum(COST, filter=Q(bound_at__gte=start, released_at__lte=end))
        for i, (start, end) in enumerate(parts)
    }
    whole = _inside(rows, edges[0], min(edges[-1], now)).order_by()
    found = whole.aggregate(**sums)
    used = [int(found[f"part_{i}"] or 0) for i in range(len(parts))]
    late = [edge for edge in edges if edge < now] + [now] * (edges[-1] >= now)
    for units, bound_at, released_at in _cut(rows, late).values_list(
        "units", "bound_at", "released_at"
    ):
        if bound_at is None:
            continue
        first = max(0, bisect_right(edges, bound_at) - 1)
        for i in range(first, bisect_left(edges, min(released_at or now, now))):
            if i < len(parts):
                used[i] += units * seconds_in(bound_at, released_at, *parts[i])
    return used


def overlapping(rows: QuerySet[Allocation], window: Window) -> QuerySet[Allocation]:
    """The allocations that have something in the window."""
    ends_later = Q(released_at__isnull=True) | Q(released_at__gt=window.start)
    return rows.filter(ends_later, bound_at__lt=window.until)


def _inside(rows: QuerySet[Allocation], start: datetime, end: datetime) -> QuerySet[Allocation]:
    """Those whose whole lease lies here: their own columns say what they used."""
    return rows.filter(bound_at__gte=start, released_at__gt=start, released_at__lte=end)


def _cut(rows: QuerySet[Allocation], edges: Sequence[datetime]) -> QuerySet[Allocation]:
    """Those that an edge cuts, and those that are still held."""
    is_cut = Q(released_at__isnull=True)
    for edge in edges:
        is_cut |= Q(bound_at__lt=edge, released_at__gt=edge)
    if len(edges) < 2:
        return rows.none()
    reaches = Q(released_at__isnull=True) | Q(released_at__gt=edges[0])
    return rows.filter(is_cut, reaches, bound_at__lt=edges[-1]).order_by()
