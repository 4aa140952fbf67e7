"""A job that is over is asked for again with one press: how a cancel is undone."""

from __future__ import annotations

import pytest

from portal.accounts.models import Membership, Role
from portal.jobs.models import Job
from portal.jobs.services import job_cancel
from scheduler.core.model.states import JobStatus
from tests.support.rows import a_job, a_project, a_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def job(olga) -> Job:
    return a_job(olga, a_project("vision", olga), name="sum")


@pytest.fixture
def olgas(client, olga):
    client.force_login(olga)
    return client


def test_a_cancel_tells_how_to_undo_it_and_the_press_queues_the_same_request(olgas, job):
    page = olgas.post(f"/jobs/{job.label}/cancel", follow=True).content.decode()
    assert f"{job.label} is cancelled. To undo this, retry it" in page
    assert f'action="/jobs/{job.label}/retry"' in page and 'form="retry"' in page
    answer = olgas.post(f"/jobs/{job.label}/retry", {"key": "k"})
    new = Job.objects.latest("pk")
    assert answer["Location"] == f"/jobs/{new.label}/"
    assert (new.status, new.name) == (JobStatus.QUEUED, "sum")
    assert new.request == job.request


def test_two_presses_make_one_job(olgas, job, olga):
    job_cancel(job=job, actor="olga")
    places = {olgas.post(f"/jobs/{job.label}/retry", {"key": "k"})["Location"] for _ in range(2)}
    assert len(places) == 1 and Job.objects.count() == 2


def test_what_still_waits_offers_no_such_button(olgas, job):
    assert 'form="retry"' not in olgas.get(f"/jobs/{job.label}/").content.decode()
    assert olgas.post(f"/jobs/{job.label}/retry", {"key": "k"}).status_code == 403
    assert Job.objects.count() == 1


def test_a_request_that_is_no_longer_allowed_comes_back_as_a_form(olgas, job, settings):
    job_cancel(job=job, actor="olga")
    Job.objects.update(request=job.request | {"project": "gone"})
    answer = olgas.post(f"/jobs/{job.label}/retry", {"key": "k"})
    assert answer["Location"] == f"/request/?like={job.label}"


def test_whoever_only_looks_on_cannot(client, job):
    job_cancel(job=job, actor="olga")
    vera = a_user("vera")
    Membership.objects.create(project=job.project, user=vera, role=Role.VIEWER)
    client.force_login(vera)
    assert 'form="retry"' not in client.get(f"/jobs/{job.label}/").content.decode()
    assert client.post(f"/jobs/{job.label}/retry").status_code == 403
    client.force_login(a_user("eve"))
    assert client.post(f"/jobs/{job.label}/retry").status_code == 404
