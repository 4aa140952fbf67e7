"""GPU-hours agree with the allocations to the unit, however the time is cut."""

from __future__ import annotations

import random
from datetime import date, timedelta
from itertools import pairwise

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.allocations.budgets import budget_views
from portal.allocations.models import Allocation
from portal.database.intervals import floor_second
from portal.inventory.models import Gpu
from portal.quotas.models import Budget
from portal.usage.ledger import (
    UsageWindow,
    unit_seconds_between,
    unit_seconds_by_key,
    unit_seconds_by_owner,
)
from portal.usage.selectors import usage_report
from portal.usage.window import PERIODS, bar_edges, midnight, parse_days, usage_window
from tests.support.held_time import DEVICES, lease
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db
NOW = timezone.now().replace(microsecond=417_000)


@pytest.fixture
def gpus():
    a_node("h200", gpus=2)
    a_node("a100", board="A100-80GB")
    return list(Gpu.objects.select_related("node").order_by("board", "index"))


@pytest.fixture
def jobs(gpus):
    """Three people in two projects."""
    ann, ben, cyd = (a_user(name) for name in ("ann", "ben", "cyd"))
    one, two = a_project("one", ann, ben), a_project("two", cyd, ann)
    return [a_job(user, home) for user, home in ((ann, one), (ben, one), (cyd, two), (ann, two))]


def many(jobs, gpus, seed: int, number: int = 60) -> None:
    """Leases of every length with ends that are no whole seconds; some still held, some unbound."""
    dice = random.Random(seed)
    for _ in range(number):
        bound = NOW - timedelta(microseconds=dice.randrange(10 * 86_400_000_000))
        length = timedelta(microseconds=dice.randrange(1, 3 * 86_400_000_000))
        ends = bound + length
        released = None if ends > NOW or dice.random() < 0.1 else ends
        lease(dice.choice(jobs), dice.choice(gpus), bound, released, dice.choice(DEVICES))
    lease(jobs[0], gpus[0], None, None)


def slowly(window: UsageWindow, rows) -> dict[tuple[str, str, str, str], int]:
    """The same by the plainest means: each second that an allocation completes, one by one in
    closed form, belongs to the window in which it is completed."""
    sums: dict[tuple[str, str, str, str], int] = {}
    for row in rows:
        if row.bound_at is None:
            continue
        end = min(row.released_at or window.now, window.now, window.end)
        whole = int((end - row.bound_at).total_seconds() * 1_000_000) // 1_000_000
        before = int((window.start - row.bound_at).total_seconds() * 1_000_000) // 1_000_000
        used = max(0, max(0, whole) - max(0, before)) * row.units
        key = (row.project.slug, row.user.username, row.slice.gpu.board, row.slice.kind)
        if used:
            sums[key] = sums.get(key, 0) + used
    return sums


def everything():
    return Allocation.objects.select_related("project", "user", "slice__gpu")


@pytest.mark.parametrize("seed", range(4))
def test_any_window_agrees_with_counting_each_allocation_by_itself(jobs, gpus, seed):
    many(jobs, gpus, seed)
    dice = random.Random(seed)
    slugs = {job.project_id: job.project.slug for job in jobs}
    people = {job.owner_id: job.owner.username for job in jobs}
    for _ in range(12):
        edges = sorted(
            NOW - timedelta(microseconds=dice.randrange(-(10**11), 11 * 86_400_000_000))
            for _ in range(2)
        )
        window = UsageWindow(*edges, NOW)
        found = {
            (slugs[line.project], people[line.user], line.board, line.kind): used
            for line, used in unit_seconds_by_key(Allocation.objects.all(), window).items()
        }
        assert found == slowly(window, everything())


@pytest.mark.parametrize("seed", range(4))
def test_the_parts_of_a_window_add_up_to_the_whole(jobs, gpus, seed):
    many(jobs, gpus, seed)
    dice = random.Random(seed + 100)
    rows = Allocation.objects.all()
    cuts = {NOW - timedelta(microseconds=dice.randrange(12 * 86_400_000_000)) for _ in range(9)}
    edges = sorted(cuts | {NOW + timedelta(hours=1)})
    whole = sum(unit_seconds_by_key(rows, UsageWindow(edges[0], edges[-1], NOW)).values())
    parts = [
        sum(unit_seconds_by_key(rows, UsageWindow(start, end, NOW)).values())
        for start, end in pairwise(edges)
    ]
    assert whole > 0
    assert sum(parts) == whole
    assert unit_seconds_between(rows, edges, NOW) == parts


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "Asia/Kolkata", "America/New_York"])
def test_whatever_the_page_offers_its_bars_and_its_lines_agree_with_each_allocation(
    jobs, gpus, zone
):
    many(jobs, gpus, seed=len(zone), number=60)
    rows = Allocation.objects.all()
    with timezone.override(zone):
        today = timezone.localtime(NOW).date()
        days = [parse_days({"period": period}, today).days for period in PERIODS]
        days += [(today - timedelta(days=n), today - timedelta(days=n // 2)) for n in (0, 3, 80)]
        for first_and_last in days:
            window = usage_window(first_and_last, NOW)
            used = sum(slowly(window, everything()).values())
            edges = [midnight(day) for day in bar_edges(first_and_last, today)]
            assert sum(unit_seconds_by_key(rows, window).values()) == used
            assert sum(unit_seconds_between(rows, edges, NOW)) == used


def test_a_day_that_is_an_hour_short_or_long_is_counted_as_the_clocks_went(jobs, gpus):
    with timezone.override("America/New_York"):
        days = [date(2026, 3, 7), date(2026, 3, 8), date(2026, 3, 9)]
        edges = [midnight(day) for day in days]
        lease(jobs[0], gpus[0], edges[0] - timedelta(hours=1), edges[-1] + timedelta(hours=1))
        hours = [
            used // 56_000 // 3600 for used in unit_seconds_between(Allocation.objects, edges, NOW)
        ]
    assert hours == [24, 23]


@pytest.mark.parametrize("fraction", [1, 417_000, 999_999])
def test_no_fraction_of_a_second_is_rounded_up(jobs, gpus, fraction):
    at = floor_second(NOW) - timedelta(minutes=1)
    lease(jobs[0], gpus[0], at + timedelta(microseconds=fraction), None)
    used = unit_seconds_by_key(
        Allocation.objects.all(), UsageWindow(at, at + timedelta(seconds=10), NOW)
    )
    assert list(used.values()) == [56_000 * 9]


def test_by_user_by_project_by_model_and_by_day_are_the_same_sum(jobs, gpus):
    many(jobs, gpus, seed=7)
    rows, window = Allocation.objects.all(), UsageWindow(NOW - timedelta(days=6), NOW, NOW)
    found = usage_report(rows, window)
    for key in (
        lambda e: (e.user,),
        lambda e: (e.project,),
        lambda e: (e.model,),
        lambda e: (e.kind,),
        lambda e: (e.project, e.user),
    ):
        assert sum(used for _, used in found.grouped(key)) == found.unit_seconds
    assert sum(unit_seconds_by_owner(rows, window).values()) == found.unit_seconds
    assert {entry.model for entry in found.entries} == {"H200", "A100"}


def test_a_budget_is_used_by_exactly_what_the_ledger_counts_since_it_began(jobs, gpus):
    many(jobs, gpus, seed=5)
    starts = [NOW - timedelta(days=days) for days in (12, 5, 1)]
    home = jobs[0].project
    known = {"project": home, "limit_unit_seconds": 1, "ends_at": NOW + timedelta(days=1)}
    owners = (None, jobs[1].owner)
    rows = [Budget(user=user, starts_at=at, **known) for at in starts for user in owners]
    of_home = Allocation.objects.filter(project=home)
    for row, view in zip(rows, budget_views(rows, NOW), strict=True):
        used = unit_seconds_by_owner(of_home, UsageWindow(row.starts_at, NOW, NOW))
        counted = (row.user_id,) if row.user_id else (jobs[0].owner_id, jobs[1].owner_id)
        assert view.used_unit_seconds == sum(used[home.pk, user] for user in counted) > 0


def test_a_budget_that_has_not_begun_is_not_used(jobs, gpus):
    lease(jobs[0], gpus[0], NOW - timedelta(hours=1), None)
    later = NOW + timedelta(hours=1)
    row = Budget(project=jobs[0].project, limit_unit_seconds=1, starts_at=later, ends_at=later)
    assert budget_views([row], NOW)[0].used_unit_seconds == 0


def test_an_ended_allocation_counts_exactly_what_its_row_says(jobs, gpus):
    bound = NOW - timedelta(hours=3, microseconds=600_000)
    row = lease(jobs[0], gpus[0], bound, NOW - timedelta(minutes=5))
    window = UsageWindow(NOW - timedelta(days=1), NOW, NOW)
    used = sum(unit_seconds_by_key(Allocation.objects.all(), window).values())
    assert used == row.units * row.used_seconds > 0


def test_what_runs_counts_up_to_now_and_nothing_of_the_time_to_come(jobs, gpus):
    lease(jobs[0], gpus[0], floor_second(NOW) - timedelta(minutes=10), None)
    later = UsageWindow(NOW - timedelta(days=1), NOW + timedelta(days=1), NOW)
    assert sum(unit_seconds_by_key(Allocation.objects.all(), later).values()) == 56_000 * 600
    to_come = UsageWindow(NOW + timedelta(hours=1), NOW + timedelta(days=1), NOW)
    assert unit_seconds_by_key(Allocation.objects.all(), to_come) == {}


def test_an_edge_between_two_instants_cuts_an_allocation_in_two(jobs, gpus):
    at = floor_second(NOW)
    lease(jobs[0], gpus[0], at - timedelta(seconds=100), at - timedelta(seconds=20))
    edge = at - timedelta(seconds=50)
    before = unit_seconds_by_key(
        Allocation.objects.all(), UsageWindow(NOW - timedelta(days=1), edge, NOW)
    )
    after = unit_seconds_by_key(Allocation.objects.all(), UsageWindow(edge, NOW, NOW))
    assert sum(before.values()) == 56_000 * 50
    assert sum(after.values()) == 56_000 * 30


def test_the_number_of_queries_does_not_grow_with_allocations_or_days(jobs, gpus):
    rows = Allocation.objects.all()
    days = [NOW - timedelta(days=n) for n in range(31, -1, -1)]

    def query_count() -> int:
        with CaptureQueriesContext(connection) as queries:
            usage_report(rows, UsageWindow(days[0], NOW, NOW))
            unit_seconds_between(rows, days, NOW)
        return len(queries)

    many(jobs, gpus, seed=1, number=3)
    few = query_count()
    many(jobs, gpus, seed=2)
    assert query_count() == few <= 6
