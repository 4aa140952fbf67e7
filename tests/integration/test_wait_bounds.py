"""Every wait has a bound and an offer: the same on the job's page, Home, the queue, REST and the
command line, and nothing is offered where there is nothing."""

import json
import re
from datetime import UTC, datetime
from html import unescape

import pytest
from rest_framework.test import APIClient

from agents.contract.moments import write_moment
from portal.accounts.models import ApiToken, Role, TokenScope
from portal.jobs.models import Job
from portal.planning.wait_bounds import wait_bound
from portal.web.wording.labels import NBSP
from scheduler.core.model.states import JobStatus
from scheduler.estimates import estimates_refresh
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)

WHOLE = {"device": {"gpus": 1}}
HALF = {"device": {"mig": "4g.71gb"}}


@pytest.fixture
def olga(client):
    olga = a_user("olga")
    client.force_login(olga)
    return olga


@pytest.fixture
def node():
    return a_node("n1", gpus=2)


@pytest.fixture
def team(olga):
    return a_project("vision", olga, gpus=1)


@pytest.fixture
def read(client):
    def read(url):
        answer = client.get(url)
        assert answer.status_code == 200
        return unescape(answer.content.decode()).replace(NBSP, " ")

    return read


@pytest.fixture
def rest(olga):
    client = APIClient()
    _, token = ApiToken.objects.create(user=olga, name="t", scope=TokenScope.READ)
    client.credentials(HTTP_AUTHORIZATION=f"Token {token}")
    return client


def reasons_refresh(node, *jobs):
    settle(node)
    estimates_refresh()
    for job in jobs:
        job.refresh_from_db()


@pytest.fixture
def fill(olga, team, node):
    """The whole quota of the team, for two hours; the other GPU of the node is free."""
    job = a_job(olga, team, name="fill3", time_limit="2h", **WHOLE)
    reasons_refresh(node, job)
    assert job.status == JobStatus.RUNNING
    return job


@pytest.fixture
def waits(fill, olga, team, node):
    job = a_job(olga, team, name="next", **WHOLE)
    reasons_refresh(node, job)
    assert job.status == JobStatus.QUEUED
    return job


def next_minute(at):
    """A bound is rounded up: it is never told too early."""
    return datetime.fromtimestamp(-(-int(at.timestamp()) // 60) * 60, UTC)


def test_all_faces_tell_the_same_bound(read, rest, waits, fill):
    words = f"It waits until {fill.label} (fill3) ends and enough of the quota is free: "
    at = next_minute(fill.deadline_at)
    element = rf'<time datetime="{re.escape(at.isoformat())}"[^>]*>[^<]*</time> at the latest'
    for address in ("/", "/queue/", f"/jobs/{waits.label}/"):
        text = read(address)
        assert re.search(re.escape(words) + element, text), address
        assert "no estimate while" not in text or address.startswith("/jobs/")
    bound = rest.get(f"/api/v1/jobs/{waits.label}").json()["bound"]
    assert bound["sentence"] == f"{words}{write_moment(at)} at the latest"
    assert bound["jobs"] == [fill.label]
    assert bound["is_certain"]
    assert abs(datetime.fromisoformat(bound["at"]) - fill.deadline_at).total_seconds() < 1
    assert rest.get("/api/v1/jobs?status=queued").json()["results"][0]["bound"] == bound


def test_stopping_one_of_ones_own_starts_it_in_two_clicks(client, read, waits, fill, node):
    assert re.search(rf'href="/jobs/{waits.label}/"[^>]*>.*Start sooner', read("/"))
    page = read(f"/jobs/{waits.label}/")
    assert "Or stop one of yours" in page
    assert f'href="/jobs/{fill.label}/cancel"' in page
    assert "what it has not saved is lost" in page
    client.post(f"/jobs/{fill.label}/cancel")
    reasons_refresh(node, waits, fill)
    assert fill.status == JobStatus.CANCELLED
    assert waits.status == JobStatus.RUNNING


def test_nobody_is_offered_to_stop_the_work_of_others(client, read, waits, team):
    otto = a_user("otto")
    team.memberships.create(user=otto, role=Role.MEMBER)
    client.force_login(otto)
    assert "Or stop one of yours" not in read(f"/jobs/{waits.label}/")


def test_from_a_wait_for_quota_to_a_started_smaller_job_in_two_clicks(
    client, read, olga, team, node
):
    a_job(olga, team, name="half", time_limit="2h", **HALF)
    waits = a_job(olga, team, name="next", **WHOLE)
    reasons_refresh(node, waits)
    assert waits.reason["code"] == "quota_project"
    assert f'href="/jobs/{waits.label}/"' in read("/")
    page = read(f"/jobs/{waits.label}/")
    change = re.search(r'form="alternative" name="change" value=\'?"?({.*?})"?\'?>', page)
    assert change, "the page offers what the quota has room for"
    answer = client.post(f"/jobs/{waits.label}/alternative", {"change": change[1]})
    reasons_refresh(node)
    started = Job.objects.get(pk=int(re.search(r"J-(\d+)", answer.headers["Location"])[1]))
    assert started.status == JobStatus.RUNNING
    assert json.dumps(started.request["device"]) != json.dumps(waits.request["device"])


def test_who_may_approve_is_named_and_since_when(client, read, rest, olga, team):
    paul = a_user("paul")
    team.memberships.create(user=paul, role=Role.ADMIN)
    team.approval_seconds = 60
    team.save()
    job = a_job(olga, team, name="long", **WHOLE)
    assert job.status == JobStatus.AWAITING_APPROVAL
    since = r"It has waited since <time [^>]*>[^<]*</time> for "
    assert re.search(since + "paul to approve it", read(f"/jobs/{job.label}/"))
    assert re.search(since + "an admin of vision to approve it", read("/"))
    bound = rest.get(f"/api/v1/jobs/{job.label}").json()["bound"]
    assert bound["sentence"].endswith("for an admin of vision to approve it")
    assert datetime.fromisoformat(bound["since"]) == job.submitted_at
    assert "Start sooner" not in read("/"), "nothing on its page would"


def test_no_button_leads_to_a_page_without_an_offer(read, olga, node):
    """Both GPUs are taken, and a job of the smallest slice has no smaller one."""
    team = a_project("robots", olga)
    for _ in range(2):
        a_job(olga, team, time_limit="2h", **WHOLE)
    waits = a_job(olga, team, name="small", time_limit="15m", device={"mig": "1g.18gb"})
    reasons_refresh(node, waits)
    assert waits.status == JobStatus.QUEUED
    assert waits.reason["alternatives"] == []
    assert "Start sooner" not in read("/")


def test_a_dependency_is_over_at_the_limit_of_the_other_job(olga, team, node, fill):
    job = a_job(olga, team, name="next", after=[fill.label], **WHOLE)
    reasons_refresh(node, job)
    bound = wait_bound(job)
    assert bound.jobs == (fill.label,)
    assert abs(bound.at - fill.deadline_at).total_seconds() < 1


def test_what_ended_or_runs_has_no_bound(fill):
    assert wait_bound(fill) is None
