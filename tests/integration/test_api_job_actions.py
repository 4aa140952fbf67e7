"""What is done with jobs over REST beyond submit and cancel: extend, retry, many at once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.cache import cache
from rest_framework.test import APIClient

from portal.accounts.models import Membership, Project, Role, User
from portal.audit.models import AuditEntry
from portal.jobs.models import Job
from portal.quotas.budgets import budget_add
from scheduler.core.model.states import JobStatus
from tests.support.rows import HonestNode, a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def olga() -> User:
    cache.clear()
    return a_user("olga")


@pytest.fixture
def project(olga: User) -> Project:
    return a_project("vision", olga)


@pytest.fixture
def node() -> HonestNode:
    return a_node("n1")


@pytest.fixture
def running(olga: User, project: Project, node: HonestNode) -> Job:
    job = a_job(olga, project)
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING
    return job


def post(user: User, path: str, body: object = None, **headers: str):
    client = APIClient()
    client.force_login(user)
    return client.post(f"/api/v1/{path}", body or {}, format="json", headers=headers)


def test_a_running_job_gets_an_hour_more_and_goes_on_as_it_is(olga, running, node):
    answer = post(olga, f"jobs/{running.label}/extend", {"by": "1h"})
    assert answer.status_code == 200
    assert answer.json()["time_limit_seconds"] == 7_200
    before, attempts = running.deadline_at, running.attempts.count()
    running.refresh_from_db()
    assert running.deadline_at - before == HOUR
    settle(node)
    running.refresh_from_db()
    assert (running.status, running.attempts.count()) == (JobStatus.RUNNING, attempts)
    line = AuditEntry.objects.get(action="job_extend")
    assert (line.before, line.after) == (
        {"time_limit_seconds": 3_600},
        {"time_limit_seconds": 7_200},
    )


@pytest.mark.parametrize("by", ["", "soon", "-1h", "0s", 0, None, [], {"h": 1}, True])
def test_a_wrong_extension_names_the_field(olga, running, by):
    answer = post(olga, f"jobs/{running.label}/extend", {"by": by})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "by")


def test_a_waiting_job_is_not_extended(olga, project):
    a_node("n1")
    job = a_job(olga, project)
    answer = post(olga, f"jobs/{job.label}/extend", {"by": "1h"})
    assert (answer.status_code, answer.json()["code"]) == (409, "not_running")


def test_an_extension_stays_below_the_longest_time_a_job_may_ask_for(olga, running):
    answer = post(olga, f"jobs/{running.label}/extend", {"by": "168h"})
    assert (answer.status_code, answer.json()["code"]) == (400, "over_time_limit")
    running.refresh_from_db()
    assert running.time_limit_seconds == 3_600


def test_what_needs_an_approval_is_extended_by_an_admin_only(olga, project, running):
    Project.objects.filter(pk=project.pk).update(approval_seconds=5_400)
    path = f"jobs/{running.label}/extend"
    refused = post(olga, path, {"by": "1h"})
    assert (refused.status_code, refused.json()["code"]) == (403, "approval")
    assert post(olga, path, {"by": "20m"}).status_code == 200
    ada = a_user("ada")
    Membership.objects.create(project=project, user=ada, role=Role.ADMIN)
    assert post(ada, path, {"by": "1h"}).status_code == 200


def test_an_extension_stays_within_the_budget(olga, project, running):
    start = running.started_at - HOUR
    budget_add(
        project=project,
        limit_unit_seconds=16_000 * 5_400,
        starts_at=start,
        ends_at=start + timedelta(days=30),
        actor="root",
    )
    path = f"jobs/{running.label}/extend"
    answer = post(olga, path, {"by": "10h"})
    assert (answer.status_code, answer.json()["code"]) == (409, "budget")


def test_a_job_that_is_over_is_asked_for_again_once_for_each_key(olga, project, running, node):
    path = f"jobs/{running.label}/retry"
    assert post(olga, path).json()["code"] == "not_over"
    node.finish(1)
    first = post(olga, path, **{"Idempotency-Key": "k"})
    again = post(olga, path, **{"Idempotency-Key": "k"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["id"] == again.json()["id"] != running.label
    assert first.json()["request"] == running.request
    assert Job.objects.count() == 2
    new = Job.objects.get(pk=int(first.json()["id"][2:]))
    assert [e.code for e in new.events.all()].count("retries") == 1


def test_a_retry_is_admitted_like_any_submit(olga, project, running, node):
    node.finish(0)
    Project.objects.filter(pk=project.pk).update(approval_seconds=60)
    answer = post(olga, f"jobs/{running.label}/retry")
    assert answer.json()["status"] == JobStatus.AWAITING_APPROVAL
    Membership.objects.filter(user=olga).delete()
    assert post(olga, f"jobs/{running.label}/retry").status_code == 404


def test_many_are_cancelled_and_each_tells_what_became_of_it(olga, project, node):
    mine = [a_job(olga, project) for _ in range(2)]
    ott = a_user("ott")
    foreign = a_job(ott, a_project("speech", ott))
    Membership.objects.create(project=project, user=ott, role=Role.MEMBER)
    other = a_job(ott, project)
    ids = [mine[0].label, mine[1].label, foreign.label, other.label, "J-999999", mine[0].label]
    answer = post(olga, "jobs/cancel", {"ids": ids}).json()
    told = {one["id"]: (one["status"], one["code"]) for one in answer["results"]}
    assert told == {
        mine[0].label: ("cancelled", ""),
        mine[1].label: ("cancelled", ""),
        foreign.label: ("", "not_found"),
        other.label: ("", "forbidden"),
        "J-999999": ("", "not_found"),
    }
    assert (answer["cancelled"], answer["refused"], answer["more"]) == (2, 3, False)
    foreign.refresh_from_db()
    assert foreign.status == JobStatus.QUEUED


def test_a_filter_cancels_what_the_list_would_show(olga, project, node):
    kept, gone = a_job(olga, project, name="keep"), a_job(olga, project, name="sweep-1")
    answer = post(olga, "jobs/cancel", {"filter": {"name": "sweep", "status": ["queued"]}})
    assert [one["id"] for one in answer.json()["results"]] == [gone.label]
    kept.refresh_from_db()
    assert kept.status == JobStatus.QUEUED


@pytest.mark.parametrize(
    "body", [{}, {"ids": []}, {"filter": {}}, {"ids": ["J-1"], "filter": {"name": "x"}}]
)
def test_cancelling_everything_by_mistake_is_refused(olga, project, node, body):
    job = a_job(olga, project)
    answer = post(olga, "jobs/cancel", body)
    assert answer.status_code == 400 and answer.json()["errors"]
    job.refresh_from_db()
    assert job.status == JobStatus.QUEUED
