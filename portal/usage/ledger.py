"""How many unit-seconds allocations used inside a window. Everything that shows usage asks here.

An allocation's seconds are whole ones since it was bound, as its row counts them, and a window
takes those that end in it: seconds(to) - seconds(from). Windows are cut at whole seconds. So the
parts of a window add up to the whole to the unit, and the whole of an ended allocation is its
`units` times its `used_seconds`. The sums are the database's own, of integers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Any

from django.db.models import F, Min, QuerySet, Sum

from portal.database.intervals import (
    BOUND_SECOND,
    SECOND,
    edge_index,
    epoch_seconds,
    floor_second,
    lease_unit_seconds,
    overlaps,
)
from portal.jobs.models import Allocation

Owner = tuple[int, int]


@dataclass(frozen=True, slots=True)
class UsageWindow:
    """[start, end). What still runs is counted up to `now`, and never beyond the window. Fractions
    of a second are left out of all three."""

    start: datetime
    end: datetime
    now: datetime

    def __post_init__(self) -> None:
        for name in self.__slots__:
            object.__setattr__(self, name, floor_second(getattr(self, name)))

    @property
    def until(self) -> datetime:
        """Up to where there is something to count."""
        return max(self.start, min(self.end, self.now))


@dataclass(frozen=True, slots=True, order=True)
class UsageKey:
    """Who used what: `board` is the GPU's key in the table of boards, `kind` the slice's."""

    project: int
    user: int
    board: str
    kind: str


def lease_seconds(
    bound_at: datetime, released_at: datetime | None, start: datetime, end: datetime
) -> int:
    """The whole seconds of a lease that end in [start, end). `end` is no later than now."""
    last = min(released_at or end, end)
    return max(0, (last - bound_at) // SECOND) - max(0, (min(start, last) - bound_at) // SECOND)


def unit_seconds_by_key(rows: QuerySet[Allocation], window: UsageWindow) -> dict[UsageKey, int]:
    """Unit-seconds by line, in the order of lines. One query."""
    names = ("project_id", "user_id", "slice__gpu__board", "slice__kind")
    found = _summed(rows, window, names)
    return {UsageKey(*line): used for *line, used in sorted(found) if used}


def unit_seconds_by_owner(rows: QuerySet[Allocation], window: UsageWindow) -> dict[Owner, int]:
    """Unit-seconds by project and user. One query."""
    found = _summed(rows, window, ("project_id", "user_id"))
    return {(project, user): int(used) for project, user, used in found}


def unit_seconds_and_first_use(
    rows: QuerySet[Allocation], window: UsageWindow
) -> tuple[dict[Owner, int], dict[Owner, datetime]]:
    """The same, and when each of them held something for the first time ever. One query."""
    used = Sum(
        lease_unit_seconds(window.start, window.until), filter=overlaps(window.start, window.until)
    )
    bound = rows.filter(bound_at__isnull=False).order_by().values_list("project_id", "user_id")
    found = list(bound.annotate(first=Min("bound_at"), used=used))
    return (
        {(project, user): int(used or 0) for project, user, _, used in found},
        {(project, user): first for project, user, first, _ in found},
    )


def unit_seconds_between(
    rows: QuerySet[Allocation], edges: Sequence[datetime], now: datetime
) -> list[int]:
    """Unit-seconds between each two neighbours of `edges`, which grow. One query.

    What was used up to an edge grows with it by the units that are held: it is the sum of
    units x (edge - bound) of what was bound before it, less units x (edge - ended) of what ended.
    So only sums by the parts in which leases begin and end are asked for.
    """
    window = UsageWindow(edges[0], edges[-1], now)
    cuts = [min(floor_second(edge), window.until) for edge in edges]
    zero = epoch_seconds(cuts[0])
    held, level = [0] * (len(cuts) + 1), [0] * (len(cuts) + 1)
    sums = {
        "held": Sum("units"),
        "bound": Sum(F("units") * (BOUND_SECOND - zero)),
        "used": Sum(F("units") * F("used_seconds")),
    }
    parts = {"begins": edge_index("bound_at", cuts), "ends": edge_index("released_at", cuts)}
    found = overlapping(rows, window).order_by().annotate(**parts).values_list(*parts)
    for begins, ends, units, bound, used in found.annotate(**sums):
        held[begins] += units
        level[begins] -= int(bound)
        held[ends] -= units
        level[ends] += int(bound) + int(used)
    reached = [
        units * (epoch_seconds(cut) - zero) + more
        for cut, units, more in zip(cuts, accumulate(held), accumulate(level), strict=False)
    ]
    return [after - before for before, after in pairwise(reached)]


def overlapping(rows: QuerySet[Allocation], window: UsageWindow) -> QuerySet[Allocation]:
    """The allocations that have something in the window."""
    return rows.filter(overlaps(window.start, window.until))


def _summed(
    rows: QuerySet[Allocation], window: UsageWindow, names: tuple[str, ...]
) -> Iterable[tuple[Any, ...]]:
    found = overlapping(rows, window).order_by().values_list(*names)
    return found.annotate(cost=Sum(lease_unit_seconds(window.start, window.until)))
