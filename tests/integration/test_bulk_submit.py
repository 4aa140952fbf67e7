"""Many jobs in one call: the same rows and events as one by one, all of them or none."""

from __future__ import annotations

from random import Random

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from portal.accounts.models import Membership, Project
from portal.api.protocol.throttling import SubmitThrottle
from portal.audit.models import Event
from portal.errors import Refused
from portal.jobs.models import Job
from portal.live import bell
from portal.submission import services
from portal.submission.services import BulkRefusedError, job_submit, jobs_submit
from scheduler.core.request import parse_request
from tests.support.rows import LIMITS, a_job, a_node, a_project, a_request, a_user

pytestmark = pytest.mark.django_db

PATH = "/api/v1/jobs/bulk"
# Numbers and times, which differ between any two jobs.
OWN_COLUMNS = {"id", "uid", "submitted_at", "queued_at", "begin_at"}


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    a_node("n1", gpus=8)
    return a_project("vision", alice, gpus=64)


@pytest.fixture
def client(alice) -> APIClient:
    client = APIClient()
    client.force_authenticate(alice)
    return client


def send(client: APIClient, jobs: list, **more):
    headers = {"HTTP_IDEMPOTENCY_KEY": more.pop("key")} if "key" in more else {}
    return client.post(PATH, {"jobs": jobs} | more, format="json", **headers)


def history(job: Job) -> tuple:
    """Its columns, what it runs after, and its events, but for numbers and times."""
    row = Job.objects.filter(pk=job.pk).values().get()
    own = {name: value is None for name, value in row.items() if name in OWN_COLUMNS}
    columns = {name: value for name, value in row.items() if name not in OWN_COLUMNS}
    after = sorted(job.after.values_list("pk", flat=True))
    events = [
        (e.noun, e.noun_id == str(job.pk), e.project_id, e.old, e.new, e.code, e.sentence, e.data)
        for e in Event.objects.filter(job=job)
    ]
    actors = list(Event.objects.filter(job=job).values_list("actor", flat=True))
    return columns, own, after, events, actors


def any_request(random: Random, project: Project, before: Job) -> dict:
    fields: dict = {
        "name": random.choice(["a", "b-1", "b-2"]),
        "device": random.choice([{"gpus": 1}, {"mig": "1g.18gb"}, {"gpus": 4}]),
        "replicas": random.choice([1, 1, 2]),
        "priority": random.choice(["low", "normal", "high"]),
        "time_limit": random.choice(["10m", "1h", "30h"]),
        "env": random.choice([{}, {"A": "1"}]),
        "after": random.choice([[], [], [before.label]]),
        "retries": random.choice([{}, {"infrastructure": 0, "user": 2}]),
    }
    if random.random() < 0.3:
        fields["begin_at"] = "+1h"
    return a_request(project, **fields)


@pytest.mark.parametrize("seed", range(12))
def test_many_at_once_are_what_they_would_be_one_by_one(seed, alice, vision):
    random = Random(seed)
    Project.objects.update(approval_units=4 * 56_000, approval_seconds=100_000, approval_high=True)
    before = a_job(alice, vision)
    bodies = [any_request(random, vision, before) for _ in range(random.randint(1, 12))]
    singles = [job_submit(user=alice, request=parse_request(body, LIMITS)) for body in bodies]
    together = jobs_submit(user=alice, bodies=bodies, limits=LIMITS)
    assert [history(job) for job in together] == [history(job) for job in singles]
    assert [job.pk for job in together] == sorted(job.pk for job in together)
    for job in together:
        fresh = Job.objects.get(pk=job.pk)
        assert (job.status, job.queued_at) == (fresh.status, fresh.queued_at)


def test_it_answers_with_labels_and_addresses(client, vision):
    answer = send(client, [a_request(vision, name="a"), a_request(vision, name="b")], count=2)
    assert answer.status_code == 201, answer.json()
    body = answer.json()
    assert body["submitted"] == 4
    assert [row["name"] for row in body["results"]] == ["a", "a", "b", "b"]
    first = body["results"][0]
    job = client.get(first["links"]["self"]).json()
    assert {name: job[name] for name in first if name != "links"} == {
        name: value for name, value in first.items() if name != "links"
    }
    assert job["status"] == "queued"


def test_each_problem_has_its_index_and_nothing_is_submitted(client, alice, vision):
    a_project("chemistry", a_user("olga"))
    jobs = [
        a_request(vision),
        a_request(vision, replicas=0, image=""),
        a_request(vision, project="chemistry"),
        a_request(vision, device={"gpus": 9}),
        {},
    ]
    answer = send(client, jobs)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (400, "bulk_refused")
    assert problem["detail"] == "4 of 5 requests are refused, so none was submitted"
    found = {(each["field"], each["code"]) for each in problem["errors"]}
    assert {
        ("jobs.1.replicas", "out_of_range"),
        ("jobs.1.image", "invalid_value"),
        ("jobs.2.project", "project_unknown"),
        ("jobs.3.device", "impossible"),
        ("jobs.4.project", "missing"),
    } <= found
    assert not any(field.startswith("jobs.0") for field, _ in found)
    assert not Job.objects.exists()
    assert not Event.objects.filter(noun="job").exists()


@pytest.mark.parametrize("whose", ["own", "project"])
def test_waiting_jobs_count_one_by_one(whose, client, alice, vision):
    a_job(alice, vision)
    rows = Membership.objects.all() if whose == "own" else Project.objects.all()
    rows.update(max_pending=3)
    answer = send(client, [a_request(vision)], count=3)
    assert [(each["field"], each["code"]) for each in answer.json()["errors"]] == [
        ("jobs.2.project", "pending_limit")
    ]
    assert Job.objects.count() == 1
    assert send(client, [a_request(vision)], count=2).status_code == 201
    with pytest.raises(Refused, match="pending_limit"):
        a_job(alice, vision)


def test_jobs_to_run_after_are_those_of_the_same_project(client, alice, vision):
    first = a_job(alice, vision)
    other = a_job(alice, a_project("chemistry", alice))
    jobs = [a_request(vision, after=[first.label]), a_request(vision, after=[other.label])]
    (error,) = send(client, jobs).json()["errors"]
    assert (error["field"], error["code"]) == ("jobs.1.after", "after_unknown")
    assert Job.objects.count() == 2


def test_a_thousand_is_the_most(client, vision):
    answer = send(client, [a_request(vision)] * 2, count=501)
    assert answer.json()["errors"][0]["field"] == "count"
    assert send(client, []).json()["errors"][0]["field"] == "jobs"
    assert send(client, ["a"]).json()["errors"][0]["field"] == "jobs.0"
    assert client.post(PATH, [], format="json").status_code == 400
    assert not Job.objects.exists()


def test_sent_twice_with_one_key_it_runs_once(client, vision):
    first = send(client, [a_request(vision)], count=5, key="k")
    again = send(client, [a_request(vision)], count=5, key="k")
    assert again["Idempotency-Replayed"] == "true"
    assert again.json() == first.json()
    assert Job.objects.count() == 5
    assert send(client, [a_request(vision)], count=6, key="k").status_code == 422


def test_a_refused_call_leaves_its_key_free(client, vision):
    assert send(client, [a_request(vision), {}], key="k").status_code == 400
    assert send(client, [a_request(vision)], key="k").status_code == 201


def test_each_job_counts_against_the_rate(client, vision, monkeypatch):
    monkeypatch.setattr(SubmitThrottle, "timer", staticmethod(lambda: 630.0))
    monkeypatch.setattr(SubmitThrottle, "rate", "10/min", raising=False)
    cache.clear()
    too_many = send(client, [a_request(vision)], count=11)
    assert (too_many.status_code, too_many.json()["code"]) == (400, "too_many")
    assert send(client, [a_request(vision)], count=8).status_code == 201
    assert send(client, [a_request(vision)], count=3).status_code == 429
    assert client.post("/api/v1/jobs", a_request(vision), format="json").status_code == 201
    assert send(client, [a_request(vision)], count=1).status_code == 201
    assert send(client, [a_request(vision)], count=1).status_code == 429


def test_a_dry_run_adds_up_and_submits_nothing(client, vision):
    Project.objects.update(approval_units=56_000)
    jobs = [a_request(vision, device={"gpus": 1}), a_request(vision, device={"gpus": 2})]
    answer = client.post(f"{PATH}?dry_run=true", {"jobs": jobs, "count": 3}, format="json")
    assert (answer.status_code, answer.json()) == (
        200,
        {"jobs": 6, "awaiting_approval": 3, "units": 9 * 56_000, "gpu_hours": "9.0000"},
    )
    assert not Job.objects.exists()
    refused = client.post(f"{PATH}?dry_run=true", {"jobs": [{}]}, format="json")
    assert refused.json()["code"] == "bulk_refused"


def test_planning_is_rung_once(alice, vision, monkeypatch, django_capture_on_commit_callbacks):
    sent: list[str] = []
    monkeypatch.setattr(bell, "_send", lambda name, *rest: sent.append(name))
    monkeypatch.setattr(bell, "_ring", sent.extend)
    with django_capture_on_commit_callbacks(execute=True):
        jobs = jobs_submit(user=alice, bodies=[a_request(vision)] * 20, limits=LIMITS)
    assert sorted(sent) == [f"job:{jobs[-1].pk}", bell.PLAN_TASK]


def test_the_statements_grow_by_full_batches_only(client, vision):
    send(client, [a_request(vision)])  # reads what the process keeps
    counts = []
    for size in (2, 50, 400):
        with CaptureQueriesContext(connection) as seen:
            assert send(client, [a_request(vision)], count=size).status_code == 201
        counts.append(len(seen))
    # SQLite takes some 23 rows of jobs, or 80 of events, in one statement.
    assert counts[0] <= 10
    assert counts[2] - counts[0] <= 400 / 23 + 2 * 400 / 80 + 1


def test_a_refusal_found_under_the_lock_submits_none(alice, vision, monkeypatch):
    """Another submit took the room between the check and the lock."""

    Project.objects.update(max_pending=3)
    checked = services.bulk_check

    def check_then_lose_a_place(**call):
        found = checked(**call)
        a_job(alice, vision)
        return found

    monkeypatch.setattr(services, "bulk_check", check_then_lose_a_place)
    with pytest.raises(BulkRefusedError) as refused:
        jobs_submit(user=alice, bodies=[a_request(vision)] * 3, limits=LIMITS)
    assert list(refused.value.problems) == [2]
    assert Job.objects.count() == 1
