"""Unit-seconds that allocations used inside a window. All usage figures come from here.

An allocation is counted in whole seconds since it was bound, and a window has the seconds that end
in it. Windows begin and end at whole seconds. So the parts of a window add up exactly, and an ended
allocation comes to `units` times `used_seconds`. The database sums integers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Any

from django.db.models import F, Min, QuerySet, Sum, Value
from django.db.models.functions import Coalesce

from agents.contract.documents import SliceKind
from portal.allocations.models import Allocation
from portal.database.intervals import (
    BOUND_SECOND,
    SECOND,
    edge_index,
    epoch_seconds,
    floor_second,
    lease_unit_seconds,
    overlaps,
)

Owner = tuple[int, int]


@dataclass(frozen=True, slots=True)
class UsageWindow:
    """The time [start, end). What still runs is counted up to `now`, within the window.

    Fractions of a second are dropped from all three.
    """

    start: datetime
    end: datetime
    now: datetime

    def __post_init__(self) -> None:
        for name in self.__slots__:
            object.__setattr__(self, name, floor_second(getattr(self, name)))

    @property
    def until(self) -> datetime:
        """The end of what can be counted now."""
        return max(self.start, min(self.end, self.now))


@dataclass(frozen=True, slots=True, order=True)
class UsageKey:
    """Who used what kind of device."""

    project: int
    user: int
    # Key in the table of boards.
    board: str
    # The slice's kind: gpu, mig or mps.
    kind: str


def allocation_seconds(
    bound_at: datetime, released_at: datetime | None, start: datetime, end: datetime
) -> int:
    """The whole seconds of an allocation that end in [start, end). `end` must not be after now."""
    last = min(released_at or end, end)
    return max(0, (last - bound_at) // SECOND) - max(0, (min(start, last) - bound_at) // SECOND)


def unit_seconds_by_key(rows: QuerySet[Allocation], window: UsageWindow) -> dict[UsageKey, int]:
    """Unit-seconds by key, sorted by key. One query."""
    devices = rows.annotate(
        device_board=Coalesce("slice__gpu__board", "board"),
        device_kind=Coalesce("slice__kind", Value(SliceKind.GPU)),
    )
    found = _summed(devices, window, ("project_id", "user_id", "device_board", "device_kind"))
    return {UsageKey(*key): used for *key, used in sorted(found) if used}


def unit_seconds_by_owner(rows: QuerySet[Allocation], window: UsageWindow) -> dict[Owner, int]:
    """Unit-seconds by project and user. One query."""
    found = _summed(rows, window, ("project_id", "user_id"))
    return {(project, user): int(used) for project, user, used in found}


def unit_seconds_and_first_use(
    rows: QuerySet[Allocation], window: UsageWindow
) -> tuple[dict[Owner, int], dict[Owner, datetime]]:
    """Unit-seconds by project and user, and the time of their very first allocation. One query."""
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
    """Unit-seconds between neighbouring `edges`, which must ascend. One query.

    The usage up to an edge is the sum of units x (edge - bound) over the allocations bound before
    it, less units x (edge - ended) over those that ended before it. So the database only has to sum
    by the interval in which allocations begin and end.
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
    """The allocations that overlap the window."""
    return rows.filter(overlaps(window.start, window.until))


def _summed(
    rows: QuerySet[Allocation], window: UsageWindow, names: tuple[str, ...]
) -> Iterable[tuple[Any, ...]]:
    found = overlapping(rows, window).order_by().values_list(*names)
    return found.annotate(cost=Sum(lease_unit_seconds(window.start, window.until)))
