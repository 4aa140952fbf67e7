"""The same call under the same key: carried out once, answered alike, forgotten after a day."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connections
from django.utils import timezone
from rest_framework.test import APIClient

from portal.accounts.models import Project, User
from portal.api.jobs import views as job_views
from portal.idempotency.models import IdempotencyRecord
from portal.idempotency.services import ABANDONED_AFTER, RETENTION, call_digest
from portal.idempotency.tasks import expire, keys_expire
from portal.jobs.models import Job
from portal.what_if.models import WhatIf
from tests.support.rows import a_job, a_node, a_project, a_request, a_user

pytestmark = pytest.mark.django_db
JOBS, UNDER = "/api/v1/jobs", {"Idempotency-Key": "k-1"}


@pytest.fixture
def olga() -> User:
    cache.clear()
    a_node("n1")
    return a_user("olga")


@pytest.fixture
def vision(olga: User) -> Project:
    return a_project("vision", olga)


@pytest.fixture
def client(olga: User) -> APIClient:
    return as_(olga)


def as_(user: User) -> APIClient:
    client = APIClient()
    client.force_authenticate(user)
    return client


def submit(client: APIClient, project: Project, **fields):
    return client.post(JOBS, a_request(project, **fields), format="json", headers=UNDER)


def aged(by: timedelta) -> None:
    """As if the key had been used that much earlier."""
    for row in IdempotencyRecord.objects.all():
        IdempotencyRecord.objects.filter(pk=row.pk).update(begun_at=row.begun_at - by)


def test_the_first_answer_comes_again_byte_for_byte_whatever_became_of_the_job(client, vision):
    first = submit(client, vision)
    assert client.post(f"{JOBS}/{first.json()['id']}/cancel").json()["status"] == "cancelled"
    again = submit(client, vision)
    assert (again.status_code, again.content) == (first.status_code, first.content) != (200, b"")
    assert again["Location"] == first["Location"]
    assert again["Content-Type"] == first["Content-Type"]
    assert (again["Idempotency-Replayed"], "Idempotency-Replayed" in first) == ("true", False)


def test_another_body_or_address_under_the_key_is_refused(client, vision):
    submit(client, vision)
    other = submit(client, vision, name="other")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")
    body = {"name": "T", "project": "vision", "request": a_request(vision)}
    elsewhere = client.post("/api/v1/templates", body, format="json", headers=UNDER)
    assert elsewhere.status_code == 422
    assert Job.objects.count() == 1


def test_while_it_is_carried_out_the_same_call_is_told_to_come_back(client, vision):
    submit(client, vision)
    IdempotencyRecord.objects.update(status=None)
    busy = submit(client, vision)
    assert (busy.status_code, busy.json()["code"]) == (409, "idempotency_running")
    assert int(busy["Retry-After"]) >= 1
    assert submit(client, vision, name="other").status_code == 422


def test_a_call_whose_process_died_is_taken_over_and_makes_one_job(olga, client, vision):
    died = timezone.now() - ABANDONED_AFTER
    digest = call_digest("POST", JOBS, a_request(vision))
    IdempotencyRecord.objects.create(user=olga, key="k-1", request_digest=digest, begun_at=died)
    assert submit(client, vision).status_code == 201
    assert submit(client, vision)["Idempotency-Replayed"] == "true"
    assert IdempotencyRecord.objects.get().status == 201
    assert Job.objects.count() == 1


def test_a_call_that_lost_its_key_to_another_leaves_no_job(client, vision, monkeypatch):
    """It took longer than a claim lasts; the other call makes the job."""

    def slowly(*args: object) -> object:
        aged(-ABANDONED_AFTER)
        return created(*args)

    created = job_views.created_response
    with monkeypatch.context() as slow:
        slow.setattr(job_views, "created_response", slowly)
        assert submit(client, vision).json()["code"] == "idempotency_running"
    assert not Job.objects.exists()


def test_a_refusal_leaves_the_key_free(client, vision):
    assert submit(client, vision, image="").status_code == 400
    assert submit(client, vision).status_code == 201


def test_a_call_that_failed_leaves_the_key_free(client, vision, monkeypatch):
    client.raise_request_exception = False

    def fails(*args: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as broken:
        broken.setattr(job_views, "created_response", fails)
        assert submit(client, vision).status_code == 500
    assert submit(client, vision).status_code == 201
    assert Job.objects.count() == 1


def test_a_dry_run_uses_up_no_key(client, vision):
    tried = client.post(f"{JOBS}?dry_run=true", a_request(vision), format="json", headers=UNDER)
    assert tried.status_code == 200
    assert submit(client, vision).status_code == 201


def test_keys_are_of_their_user(client, vision):
    ott = a_user("ott")
    speech = a_project("speech", ott)
    submit(client, vision)
    assert submit(as_(ott), speech).status_code == 201


def test_a_key_is_free_after_a_day(client, vision):
    first = submit(client, vision)
    keys_expire()
    assert submit(client, vision).json()["id"] == first.json()["id"]
    aged(RETENTION)
    Job.objects.update(submitted_at=timezone.now() - RETENTION)
    assert expire()
    assert not IdempotencyRecord.objects.exists()
    assert submit(client, vision, name="other").status_code == 201
    assert Job.objects.count() == 2


def test_a_what_if_is_asked_once(olga):
    root = as_(a_user("root", is_superuser=True))
    a_node("n2")
    a_job(olga, a_project("speech", olga))
    body = {"days": 1, "changes": [{"kind": "without", "node": "n1"}]}
    answers = [root.post("/api/v1/what-ifs", body, format="json", headers=UNDER) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].content == answers[1].content
    assert WhatIf.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_one_key_from_many_threads_makes_one_job(olga, vision):
    gate, told = threading.Barrier(4), []

    def send() -> None:
        client = as_(olga)
        gate.wait()
        told.append(submit(client, vision))
        connections.close_all()

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = [answer.status_code for answer in told]
    assert len(told) == 4 and 201 in statuses and set(statuses) <= {201, 409}
    assert all("Retry-After" in answer for answer in told if answer.status_code == 409)
    assert len({answer.content for answer in told if answer.status_code == 201}) == 1
    assert Job.objects.count() == 1
