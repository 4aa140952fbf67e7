"""An estimate says no more than its own record supports: the range, the bound alone, or nothing."""

from datetime import UTC, timedelta
from html import unescape

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from portal.accounts.models import ApiToken, TokenScope
from portal.cli.text import expected_start_text
from portal.jobs.models import StartEstimate
from portal.web.jobs.export import COLUMNS, csv_cells
from portal.web.wording.labels import NBSP
from scheduler.core.model.states import JobStatus
from scheduler.estimates import estimates_refresh
from tests.support.ended_jobs import ended_jobs
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = 3_600
KIND = "fair/priority/normal"


@pytest.fixture
def olga(client):
    olga = a_user("olga")
    client.force_login(olga)
    return olga


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


@pytest.fixture
def node():
    return a_node("n1")


def a_record(jobs, *, hours, until):
    """One earlier estimate for each job: in two hours, in six at the latest. They started
    after `hours`."""
    at = timezone.now() - timedelta(hours=until)
    waits = [1.0 * HOUR, 2.0 * HOUR, 6.0 * HOUR]
    low, middle, high = (at + timedelta(seconds=wait) for wait in waits)
    StartEstimate.objects.bulk_create(
        StartEstimate(
            job=job,
            estimated_at=at,
            optimistic=low,
            expected=middle,
            pessimistic=high,
            basis="earlier",
            own=waits,
            calibrated=waits,
            kind=KIND,
            started_at=at + timedelta(hours=hours),
        )
        for job in jobs
    )


def a_waiting_job(olga, team, node):
    a_job(olga, team, time_limit="2h", device={"gpus": 1})
    job = a_job(olga, team, name="next", device={"gpus": 1})
    settle(node)
    estimates_refresh()
    job.refresh_from_db()
    assert job.status == JobStatus.QUEUED
    return job


def row_over_rest(olga, job):
    _, token = ApiToken.objects.create(user=olga, name="t", scope=TokenScope.READ)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {token}")
    return client.get(f"/api/v1/jobs/{job.label}").json()


def page(client, job):
    return unescape(client.get(f"/jobs/{job.label}/").content.decode()).replace(NBSP, " ")


def test_a_range_is_told_while_the_record_is_good(client, olga, team, node):
    a_record(ended_jobs(olga, team)[:20], hours=1.8, until=30)
    job = a_waiting_job(olga, team, node)
    assert "bound_held_in_10" not in job.estimate
    assert "in about" in page(client, job)
    assert row_over_rest(olga, job)["estimate"]["expected"]


def test_only_the_bound_and_its_hit_rate_are_told_after_estimates_that_were_far_off(
    client, olga, team, node
):
    jobs = ended_jobs(olga, team)
    a_record(jobs[:18], hours=0.3, until=30)
    a_record(jobs[18:20], hours=20, until=30)
    job = a_waiting_job(olga, team, node)
    assert job.estimate["bound_held_in_10"] == 9
    text = page(client, job)
    assert "in 9 of 10 cases within" in text
    assert "in about" not in text
    assert "9 of 10 cases" in unescape(client.get("/queue/").content.decode())
    start = COLUMNS.index("expected_start")
    assert csv_cells(job, UTC)[start] == "", "a bound is no expected start"
    row = row_over_rest(olga, job)
    assert (row["estimate"]["optimistic"], row["estimate"]["expected"]) == (None, None)
    assert row["estimate"]["pessimistic"]
    assert expected_start_text(row, timezone.now()).endswith("in 9 of 10 cases")


def test_where_the_bound_held_seldom_too_it_is_said_that_nobody_knows(client, olga, team, node):
    a_record(ended_jobs(olga, team)[:20], hours=25, until=30)
    job = a_waiting_job(olga, team, node)
    assert job.estimate is None
    told = "no estimate: earlier ones of this kind were too far off"
    assert told in page(client, job)
    assert row_over_rest(olga, job)["no_estimate"]["sentence"] == told
