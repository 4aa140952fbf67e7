"""What a what-if reads: the jobs of the past, and the cluster of now without what runs on it."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.jobs.models import Attempt, Job
from portal.jobs.services import job_cancel
from portal.planning import requests
from portal.recent_values import RecentValues
from portal.what_if.recorded_jobs import current_scenario, recorded_window
from portal.what_if.services import what_if_compare
from scheduler.what_if.changes import QuotaSet
from tests.support.recorded_weeks import HOUR, SLICE, a_recorded_week, ran
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def alice():
    return a_user("alice")


def test_reading_takes_the_same_number_of_queries_however_many_jobs(alice, monkeypatch):
    a_recorded_week(alice)
    now = timezone.now()

    def queries():
        monkeypatch.setattr(requests, "_specs", RecentValues(requests.MAX_KEPT_REQUESTS))
        with CaptureQueriesContext(connection) as found:
            current_scenario(now=now, days=7)
            recorded_window(now=now, days=7)
        return len(found)

    few = queries()
    for number in range(10):
        first = Job.objects.earliest("id")
        job = a_job(alice, first.project, name=f"more-{number}", after=[first.label], **SLICE)
        ran(job, now=now, queued=20 * HOUR)
    assert queries() == few


def test_recorded_jobs_say_what_they_waited_ran_and_how_they_ended(alice):
    # One moment for all: what is compared to the second must not be counted from two.
    today = timezone.now().replace(microsecond=0)
    past = {"now": today}
    home = a_project("vision", alice)
    twice = ran(a_job(alice, home, **SLICE), **past, queued=30 * HOUR, waited=2, hours=1)
    again = twice.attempts.get().ended_at + HOUR
    Attempt.objects.create(job=twice, number=2, created_at=again, ended_at=again + HOUR / 2)
    old = ran(a_job(alice, home, **SLICE, time_limit="4d"), **past, queued=80 * HOUR, hours=60)
    before = ran(a_job(alice, home, **SLICE), **past, queued=90 * HOUR)
    taken = a_job(alice, home, **SLICE)
    job_cancel(job=taken, actor="alice")
    Job.objects.filter(pk=taken.pk).update(queued_at=today - 5 * HOUR)
    node = a_node("node-a", gpus=1)
    runs = a_job(alice, home, **SLICE)
    settle(node, rounds=2)
    waiting = a_job(alice, home, device={"gpus": 1})

    now = today + HOUR / 4
    found = {r.job.id: r for r in recorded_window(now=now, days=2).jobs}
    assert str(before.pk) not in found
    record = found[str(twice.pk)]
    assert (record.ran_seconds, record.waited_seconds) == (3_600, 3 * 3_600), "at most its limit"
    assert record.is_counted and not record.was_running
    record = found[str(old.pk)]
    assert record.was_running and not record.is_counted
    assert record.ran_seconds + record.job.attained_seconds == 60 * 3_600
    assert record.job.attained_seconds == 32.25 * 3_600
    record = found[str(taken.pk)]
    assert record.withdrawn_at and record.waited_seconds is None
    assert found[str(waiting.pk)].waited_seconds is None
    assert found[str(waiting.pk)].ran_seconds > 0
    assert found[str(runs.pk)].ran_seconds >= 900


def test_the_cluster_is_read_empty_and_the_service_answers_at_once(alice):
    node = a_node("node-a", gpus=2)
    home = a_project("vision", alice)
    a_job(alice, home, **SLICE)
    settle(node)
    setting = current_scenario(now=timezone.now(), days=7)
    (view,) = setting.nodes
    assert view.cpu_free_milli == view.cpu_total_milli == 64_000
    assert not any(gpu.slices for gpu in view.gpus)
    assert [quota.used_units for quota in setting.quotas] == [0]
    found = what_if_compare(days=1, changes=[QuotaSet("vision", 56_000)], actor="root")
    assert (found.baseline.jobs, found.baseline.ended) == (1, 1)
