"""Sensor samples of a job's devices over its whole life: few points, old minutes as hours."""

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.allocations.models import Allocation, AllocationHour, AllocationSample
from portal.jobs.models import Job, Replica
from portal.telemetry.device_history import device_history
from portal.telemetry.job_samples import RETENTION
from portal.telemetry.sample_hours import HOURS_RETENTION, samples_fold
from portal.telemetry.used_memory import used_memory
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def now():
    return timezone.now().replace(minute=0, second=0, microsecond=0)


@pytest.fixture
def held():
    """The GPU of a job that has run."""
    olga, node = a_user("olga"), a_node("n1")
    a_job(olga, a_project("vision", olga), device={"gpus": 1})
    settle(node)
    return Allocation.objects.select_related("replica__attempt__job").get()


def ran(held: Allocation, start, end) -> Allocation:
    Allocation.objects.update(reserved_at=start, bound_at=start, released_at=end)
    Replica.objects.update(started_at=start, finished_at=end)
    held.refresh_from_db()
    return held


def sampled(held: Allocation, start, *used_mib: int | None, every=MINUTE, why=None) -> None:
    AllocationSample.objects.bulk_create(
        AllocationSample(
            allocation=held,
            minute=start + n * every,
            memory_used_mib=used,
            memory_total_mib=None if used is None else 1_000,
            active_percent=None,
            power_mw=None if used is None else 7 * used,
            why=why or {"active_percent": "no_permission"},
        )
        for n, used in enumerate(used_mib)
    )


def test_a_short_run_keeps_its_minutes(held, now):
    start = now - 2 * HOUR
    sampled(ran(held, start, now), start, 5, None, 9)
    history = device_history([held])
    assert history.minutes_each == 1
    points = history.points[held.pk]
    assert [point.memory_used_mib for point in points] == [5, None, 9]
    assert points[0].why == {"active_percent": "no_permission"}


@pytest.mark.parametrize(
    ("length", "each", "times", "highest"),
    [
        # Samples each 5 minutes, from 0 on.
        (10 * HOUR, 10, [0, 10, 20, 30], [1, 3, 5, 6]),
        (20 * DAY, 60, [0], [6]),
        (60 * DAY, 1_440, [0], [6]),
    ],
)
def test_a_longer_run_has_the_highest_of_longer_times(held, now, length, each, times, highest):
    start = now.replace(hour=0) - DAY
    ran(held, start, start + length)
    sampled(held, start, 0, 1, 2, 3, 4, 5, 6, every=5 * MINUTE)
    history = device_history([held])
    assert history.minutes_each == each
    points = history.points[held.pk]
    assert [(point.minute - start) // MINUTE for point in points] == times
    assert [point.memory_used_mib for point in points] == highest
    assert points[-1].why == {"active_percent": "no_permission"}


def test_what_was_measured_in_some_minute_of_a_longer_time_is_not_missing(held, now):
    start = now - 10 * HOUR
    sampled(ran(held, start, now), start, 5)
    sampled(held, start + MINUTE, None, why={"memory_used_mib": "driver_error"})
    (point,) = device_history([held]).points[held.pk]
    assert (point.memory_used_mib, point.why) == (5, {})


def test_old_minutes_become_hours_and_the_history_stays_whole(held, now):
    old = now - RETENTION - 3 * HOUR
    ran(held, old, now)
    sampled(held, old + 58 * MINUTE, 3, 8, 4, None)
    sampled(held, now - HOUR, 6)
    assert [samples_fold(now=now) for _ in range(3)] == [2, 2, 0]
    hours = AllocationHour.objects.order_by("hour")
    assert [(row.hour, row.memory_used_mib, row.minutes) for row in hours] == [
        (old, 8, 2),
        (old + HOUR, 4, 1),
    ]
    assert [row.power_mw for row in hours] == [56, 28]
    assert AllocationSample.objects.get().memory_used_mib == 6
    points = device_history([held]).points[held.pk]
    assert [point.memory_used_mib for point in points] == [8, 4, 6]
    assert samples_fold(now=now + HOURS_RETENTION) == 1
    assert AllocationHour.objects.get().memory_used_mib == 6


def test_a_short_run_that_is_old_has_hours(held, now):
    old = now - RETENTION - 3 * HOUR
    sampled(ran(held, old, old + HOUR), old, 3, 8)
    assert samples_fold(now=now) == 2
    history = device_history([held])
    assert history.minutes_each == 60
    assert [point.memory_used_mib for point in history.points[held.pk]] == [8]


def test_a_share_that_cannot_be_measured_leaves_no_hours(held, now):
    old = now - RETENTION - 3 * HOUR
    sampled(ran(held, old, now), old, None, None)
    assert samples_fold(now=now) == 2
    assert not AllocationHour.objects.exists()


def test_the_peak_of_a_long_run_is_that_of_its_whole_life(held, now):
    start = now - RETENTION - 2 * HOUR
    end = start + 4 * HOUR
    ran(held, start, end)
    sampled(held, start, 800, *[100] * 239)
    assert samples_fold(now=now) == 60
    used = used_memory(held.replica.attempt)
    assert used is not None
    assert (used.used_mib, used.total_mib) == (800, 1_000)
    # The hour with the peak is lost, and the rest is less than nine tenths.
    AllocationHour.objects.all().delete()
    assert used_memory(held.replica.attempt) is None


def test_rest_has_each_device_with_its_peak_and_points(client, held, now):
    start = now - HOUR
    sampled(ran(held, start, now), start, 5, 9)
    job = Job.objects.get()
    client.force_login(job.owner)
    page = client.get(f"/api/v1/jobs/{job.label}/telemetry").json()
    assert (page["minutes_each"], page["next_after"]) == (1, None)
    (device,) = page["results"]
    points = device.pop("points")
    assert device == {
        **{"rank": 0, "node": "n1", "gpu": 0, "kind": "gpu", "profile": ""},
        **{"memory_total_mib": 1_000, "peak_memory_mib": 9},
    }
    assert points[0] == {
        **{"at": f"{start:%Y-%m-%dT%H:%M:%SZ}", "active_percent": None, "memory_used_mib": 5},
        **{"temperature_c": None, "power_mw": 35},
        "missing": {"active_percent": "no_permission"},
    }
    assert client.get(f"/api/v1/jobs/{job.label}/telemetry?attempt=9").json()["results"] == []
