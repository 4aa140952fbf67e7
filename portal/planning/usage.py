"""Owners with their weights, caps, and recent usage, which decays by a half-life."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db.models import DateTimeField, F, QuerySet, Sum, Value
from django.db.models.functions import TruncDay, TruncHour
from django.utils import timezone

from portal.accounts.models import Membership, Project
from portal.allocations.models import Allocation
from portal.database.intervals import SECOND
from portal.database.kept_queries import KeptSelect
from portal.planning.running import LiveAllocation
from scheduler.core.model.snapshot import OwnerView

# Usage older than this many half-lives would count less than 1/256 of itself: it is left out.
HALF_LIVES = 8
# From this half-life on, usage is summed by days instead of hours.
BY_DAYS = 2 * 86_400
# Decay is a fraction of this, so that sums stay whole numbers.
SCALE = 1 << 20
# No transaction commits this long after it read the clock: older releases are all there.
SETTLED_AFTER = timedelta(minutes=10)
# How often those are added to the sums, so that a pass reads hardly more than the last ten minutes.
SETTLED_EVERY = timedelta(minutes=1)
# Sums are taken from the rows again after this, in case a row or a name was changed by hand.
SUMMED_AGAIN = timedelta(hours=1)

Amounts = tuple[int, int, int]
Owner = tuple[str, str]
# Project, user, and the start of a day or hour.
Period = tuple[str, str, datetime]
NOTHING: Amounts = (0, 0, 0)


@dataclass(slots=True)
class UsageHistory:
    """Amount-seconds (units, millicores, MiB) by project, user and day or hour of their end.

    Kept between passes: releases up to `until` are summed here, and only later ones are queried.
    Exact: a new UsageHistory gives the same sums.
    """

    by_days: bool = True
    since: datetime | None = None
    until: datetime | None = None
    summed_at: datetime | None = None
    settled: dict[Period, Amounts] = field(default_factory=dict)

    def released(self, now: datetime, half_life_seconds: int) -> dict[Period, Amounts]:
        """What was released in the half-lives before `now`. One query, sometimes two."""
        by_days = half_life_seconds >= BY_DAYS
        since = _floor(now - timedelta(seconds=HALF_LIVES * half_life_seconds), by_days=by_days)
        until = self._settle(now, since, by_days)
        late = _sums(until, now, by_days=by_days)
        return {
            period: _plus(self.settled.get(period, NOTHING), late.get(period, NOTHING))
            for period in self.settled.keys() | late.keys()
            if period[2] >= since
        }

    def _settle(self, now: datetime, since: datetime, by_days: bool) -> datetime:
        """Add releases that can no longer change to the sums, once there is enough. Until when."""
        if not self._is_valid(now, since, by_days):
            self.by_days, self.since, self.until, self.summed_at = by_days, since, since, now
            self.settled = {}
        until, settles = self.until or since, now - SETTLED_AFTER
        if settles - until > SETTLED_EVERY:
            more = _sums(until, settles, by_days=by_days)
            for period, amounts in more.items():
                self.settled[period] = _plus(self.settled.get(period, NOTHING), amounts)
            self.settled = {key: sums for key, sums in self.settled.items() if key[2] >= since}
            self.until = until = settles
        return until

    def _is_valid(self, now: datetime, since: datetime, by_days: bool) -> bool:
        if self.since is None or self.until is None or self.summed_at is None:
            return False
        is_young = timedelta(0) <= now - self.summed_at < SUMMED_AGAIN
        return is_young and self.by_days == by_days and self.since <= since and self.until <= now


def owners(
    live: Iterable[LiveAllocation],
    now: datetime,
    half_life_seconds: int,
    history: UsageHistory | None = None,
) -> tuple[OwnerView, ...]:
    """Every project (user "") and every user in it, with their usage: (units, millicores, MiB)
    times seconds, decayed since its release. Two queries, sometimes three.

    Live allocations count in full, from when they were bound. `history`: kept between calls.
    """
    spent = _spent(live, now, half_life_seconds, history or UsageHistory())
    shares = _shares()
    return tuple(
        OwnerView(project, user, weight, *spent.get((project, user), NOTHING), max_running)
        for project, user in sorted(shares.keys() | spent.keys())
        for weight, max_running in (shares.get((project, user), (1, 0)),)
    )


def decay(age_seconds: int, half_life_seconds: int) -> int:
    """What remains of SCALE after this time."""
    remaining: float = 2.0 ** (-max(0, age_seconds) / half_life_seconds)
    return round(SCALE * remaining)


def _shares() -> dict[Owner, tuple[int, int]]:
    """Weight and cap of running jobs. One query."""
    rows = _WEIGHTS.rows()
    return {(slug, user): (weight, max_running) for slug, user, weight, max_running in rows}


def _weights() -> QuerySet[Project, tuple[Any, ...]]:
    columns = ("weight", "max_running")
    projects = Project.objects.order_by().values_list("slug", Value(""), *columns)
    members = Membership.objects.order_by().values_list("project__slug", "user__username", *columns)
    return projects.union(members, all=True)


_WEIGHTS = KeptSelect(_weights)


def _spent(
    live: Iterable[LiveAllocation], now: datetime, half_life_seconds: int, history: UsageHistory
) -> dict[Owner, Amounts]:
    sums: dict[Owner, list[int]] = defaultdict(lambda: [0, 0, 0])

    def add(owner: Owner, amounts: Iterable[int]) -> None:
        for key in (owner, (owner[0], "")):
            sums[key] = [a + b for a, b in zip(sums[key], amounts, strict=True)]

    periods = history.released(now, half_life_seconds)
    middle = timedelta(hours=12) if history.by_days else timedelta(minutes=30)
    for (project, user, period), amounts in periods.items():
        part = decay((now - period - middle) // SECOND, half_life_seconds)
        add((project, user), [amount * part for amount in amounts])
    bound: dict[Owner, list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in live:
        used, seconds = bound[row.project, row.user], row.seconds(now)
        used[0] += row.place.units * seconds
        used[1] += row.cpu_milli * seconds
        used[2] += row.memory_mib * seconds
    for owner, sums_of_owner in bound.items():
        add(owner, [amount * SCALE for amount in sums_of_owner])
    return {owner: (u // SCALE, c // SCALE, m // SCALE) for owner, (u, c, m) in sums.items()}


def _sums(after: datetime, until: datetime, *, by_days: bool) -> dict[Period, Amounts]:
    """What was released between the two, by project, user and the start of the day or hour."""
    found = (_SUMS_BY_DAYS if by_days else _SUMS_BY_HOURS).rows(after, until)
    return {
        (project, user, at): (int(units), int(cpu), int(memory))
        for project, user, at, units, cpu, memory in found
    }


def _summed(after: Any, until: Any, *, by_days: bool) -> QuerySet[Allocation, tuple[Any, ...]]:
    rows = Allocation.objects.filter(released_at__gt=after, released_at__lte=until)
    zone = timezone.get_default_timezone()
    trunc = TruncDay if by_days else TruncHour
    period = trunc("released_at", tzinfo=zone)
    names = ("project__slug", "user__username", "period")
    found: QuerySet[Allocation, tuple[Any, ...]] = (
        rows.filter(used_seconds__gt=0)
        .order_by()
        .annotate(period=period)
        .values(*names)
        .annotate(
            used_units=Sum(F("used_seconds") * F("units")),
            used_cpu=Sum(F("used_seconds") * F("cpu_milli")),
            used_memory=Sum(F("used_seconds") * F("memory_mib")),
        )
        .values_list(*names, "used_units", "used_cpu", "used_memory")
    )
    return found


_SUMS_BY_DAYS = KeptSelect(partial(_summed, by_days=True), DateTimeField(), DateTimeField())
_SUMS_BY_HOURS = KeptSelect(partial(_summed, by_days=False), DateTimeField(), DateTimeField())


def _floor(at: datetime, *, by_days: bool) -> datetime:
    """The start of its day or hour, in the portal's time zone: a page has its reader's."""
    begin = timezone.localtime(at, timezone.get_default_timezone()).replace(
        minute=0, second=0, microsecond=0
    )
    return begin.replace(hour=0) if by_days else begin


def _plus(one: Amounts, other: Amounts) -> Amounts:
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2])
