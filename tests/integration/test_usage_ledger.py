"""GPU-hours agree with the allocations to the unit, however the time is cut."""

from __future__ import annotations

import random
from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.inventory.models import Gpu
from portal.jobs.models import Allocation
from portal.usage.ledger import Window, used_between, used_by_line, used_by_owner
from portal.usage.selectors import usage
from tests.leases import DEVICES, lease
from tests.rows import a_job, a_node, a_project, a_user

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


def slowly(window: Window, rows) -> dict[tuple[str, str, str, str], int]:
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
        window = Window(*edges, NOW)
        found = {
            (slugs[line.project], people[line.user], line.board, line.kind): used
            for line, used in used_by_line(Allocation.objects.all(), window).items()
        }
        assert found == slowly(window, everything())


@pytest.mark.parametrize("seed", range(4))
def test_the_parts_of_a_window_add_up_to_the_whole(jobs, gpus, seed):
    many(jobs, gpus, seed)
    dice = random.Random(seed + 100)
    rows = Allocation.objects.all()
    cuts = {NOW - timedelta(microseconds=dice.randrange(12 * 86_400_000_000)) for _ in range(9)}
    edges = sorted(cuts | {NOW + timedelta(hours=1)})
    whole = sum(used_by_line(rows, Window(edges[0], edges[-1], NOW)).values())
    parts = [
        sum(used_by_line(rows, Window(start, end, NOW)).values()) for start, end in pairwise(edges)
    ]
    assert whole > 0
    assert sum(parts) == whole
    assert used_between(rows, edges, NOW) == parts


def test_by_user_by_project_by_model_and_by_day_are_the_same_sum(jobs, gpus):
    many(jobs, gpus, seed=7)
    rows, window = Allocation.objects.all(), Window(NOW - timedelta(days=6), NOW, NOW)
    found = usage(rows, window)
    for key in (
        lambda e: (e.user,),
        lambda e: (e.project,),
        lambda e: (e.model,),
        lambda e: (e.kind,),
        lambda e: (e.project, e.user),
    ):
        assert sum(used for _, used in found.by(key)) == found.used
    assert sum(used_by_owner(rows, window).values()) == found.used
    assert {entry.model for entry in found.entries} == {"H200", "A100"}


def test_an_ended_allocation_counts_exactly_what_its_row_says(jobs, gpus):
    bound = NOW - timedelta(hours=3, microseconds=600_000)
    row = lease(jobs[0], gpus[0], bound, NOW - timedelta(minutes=5))
    window = Window(NOW - timedelta(days=1), NOW, NOW)
    used = sum(used_by_line(Allocation.objects.all(), window).values())
    assert used == row.units * row.used_seconds > 0


def test_what_runs_counts_up_to_now_and_nothing_of_the_time_to_come(jobs, gpus):
    lease(jobs[0], gpus[0], NOW - timedelta(minutes=10), None)
    later = Window(NOW - timedelta(days=1), NOW + timedelta(days=1), NOW)
    assert sum(used_by_line(Allocation.objects.all(), later).values()) == 56_000 * 600
    to_come = Window(NOW + timedelta(hours=1), NOW + timedelta(days=1), NOW)
    assert used_by_line(Allocation.objects.all(), to_come) == {}


def test_an_edge_between_two_instants_cuts_an_allocation_in_two(jobs, gpus):
    lease(jobs[0], gpus[0], NOW - timedelta(seconds=100), NOW - timedelta(seconds=20))
    edge = NOW - timedelta(seconds=50)
    before = used_by_line(Allocation.objects.all(), Window(NOW - timedelta(days=1), edge, NOW))
    after = used_by_line(Allocation.objects.all(), Window(edge, NOW, NOW))
    assert sum(before.values()) == 56_000 * 50
    assert sum(after.values()) == 56_000 * 30


def test_the_number_of_queries_does_not_grow_with_allocations_or_days(jobs, gpus):
    rows = Allocation.objects.all()
    days = [NOW - timedelta(days=n) for n in range(31, -1, -1)]

    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            usage(rows, Window(days[0], NOW, NOW))
            used_between(rows, days, NOW)
        return len(queries)

    many(jobs, gpus, seed=1, number=3)
    few = asked()
    many(jobs, gpus, seed=2)
    assert asked() == few <= 6
