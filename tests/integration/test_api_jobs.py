"""A job's life over REST: submit once, list, show, cancel, logs, history, usage."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from agents.contract.message import verbatim
from portal.allocations.models import Allocation
from portal.allocations.selectors import gpu_hours, usage_of
from portal.audit.transitions import event_record
from portal.inventory.models import Gpu, Slice
from portal.jobs.models import Attempt, Job, Replica
from scheduler.core.model.states import JobStatus, SliceStatus
from tests.support.logs import write_log
from tests.support.rows import a_job, a_node, a_project, a_request, a_user

URL = "/api/v1/jobs"


@pytest.fixture
def olga(db):
    cache.clear()
    return a_user("olga")


@pytest.fixture
def project(olga):
    a_node("n1")
    return a_project("vision", olga)


@pytest.fixture
def client(olga) -> APIClient:
    client = APIClient()
    client.force_login(olga)
    return client


def _run(job: Job, *, bound_seconds: int = 0) -> Replica:
    """The job as if it had been placed on a 2g slice and had run for so long."""
    now = timezone.now()
    attempt = Attempt.objects.create(job=job, number=job.attempts.count() + 1, created_at=now)
    gpu = Gpu.objects.get()
    piece = Slice.objects.create(
        gpu=gpu, kind="mig", profile="2g.35gb", size=2, memory_mib=1, units=16_000, status="ready"
    )
    replica = Replica.objects.create(attempt=attempt, rank=0, node=gpu.node)
    since = now - timedelta(seconds=bound_seconds)
    Allocation.objects.create(
        replica=replica,
        slice=piece,
        project=job.project,
        user=job.owner,
        units=16_000,
        status="released",
        reserved_at=since,
        bound_at=since,
        released_at=now,
    )
    return replica


def test_submit_answers_the_whole_job(client, project):
    answer = client.post(URL, a_request(project), format="json")
    job = answer.json()
    assert answer.status_code == 201
    assert job["id"].startswith("J-") and answer["Location"] == job["links"]["self"]
    assert (job["project"], job["owner"], job["status"]) == ("vision", "olga", "queued")
    assert (job["attempts"], job["result"], job["gpu_hours"]) == ([], None, "0.0000")
    assert client.get(answer["Location"]).json()["uid"] == job["uid"]
    assert client.get(f"{URL}/{job['id'][2:]}").json()["uid"] == job["uid"]


def test_a_dry_run_creates_nothing(client, project):
    answer = client.post(f"{URL}?dry_run=true", a_request(project), format="json")
    assert answer.status_code == 200
    assert answer.json()["possible"] is True
    assert not Job.objects.exists()


def test_the_same_key_and_body_is_the_same_job(client, project):
    headers = {"Idempotency-Key": "once"}
    first = client.post(URL, a_request(project), format="json", headers=headers).json()
    again = client.post(URL, a_request(project), format="json", headers=headers).json()
    assert first["id"] == again["id"]
    other = client.post(URL, a_request(project, name="other"), format="json", headers=headers)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")
    assert Job.objects.count() == 1


@pytest.mark.parametrize("key", ["x" * 129, "tab\there"])
def test_a_bad_key_is_refused(client, project, key):
    answer = client.post(URL, a_request(project), format="json", headers={"Idempotency-Key": key})
    assert (answer.status_code, answer.json()["code"]) == (400, "idempotency_key_invalid")


def test_a_list_takes_as_many_queries_for_twenty_jobs_as_for_one(client, olga, project):
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert client.get(URL).status_code == 200
        return len(seen)

    _run(a_job(olga, project))
    queries()
    one = queries()
    gpu = Gpu.objects.get()
    for _ in range(19):
        a_job(olga, project)
    Slice.objects.filter(gpu=gpu).update(status=SliceStatus.DELETED)
    assert queries() == one
    assert len(client.get(URL).json()["results"]) == 20


def test_showing_a_job_takes_as_many_queries_for_many_attempts(client, olga, project):
    job = a_job(olga, project)

    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            client.get(f"{URL}/{job.label}")
        return len(seen)

    _run(job)
    queries()
    one = queries()
    for _ in range(5):
        _run(job)
    assert queries() == one


def test_pages_follow_each_other_and_filters_hold(client, olga, project):
    for i in range(5):
        a_job(olga, project, name=f"job-{i}")
    first = client.get(URL, {"page_size": 3}).json()
    second = client.get(first["next"]).json()
    names = [job["name"] for job in first["results"] + second["results"]]
    assert names == [f"job-{i}" for i in (4, 3, 2, 1, 0)]
    assert second["next"] is None
    assert [j["name"] for j in client.get(URL, {"name": "b-3"}).json()["results"]] == ["job-3"]
    assert client.get(URL, {"status": ["running", "failed"]}).json()["results"] == []
    assert len(client.get(URL, {"status": "queued", "owner": "olga"}).json()["results"]) == 5
    assert client.get(URL, {"project": "speech"}).json()["results"] == []


def test_cancel_ends_a_waiting_job_and_may_be_repeated(client, olga, project):
    job = a_job(olga, project)
    for _ in range(2):
        answer = client.post(f"{URL}/{job.label}/cancel")
        assert (answer.status_code, answer.json()["status"]) == (200, JobStatus.CANCELLED)


def test_logs_come_as_text_by_offset(client, olga, project):
    job = a_job(olga, project)
    replica = _run(job)
    text = b"<script>alert(1)</script>\n"
    write_log(replica, 0, text)
    Replica.objects.filter(pk=replica.pk).update(log_bytes=len(text))
    answer = client.get(f"{URL}/{job.label}/logs", {"limit": 8}, headers={"Accept": "text/html"})
    assert answer.content == text[:8]
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert (answer["X-Next-Offset"], answer["X-Log-Bytes"]) == ("8", str(len(text)))
    rest = client.get(f"{URL}/{job.label}/logs", {"offset": 8, "attempt": 1, "rank": 0})
    assert rest.content == text[8:]
    assert client.get(f"{URL}/{job.label}/logs", {"rank": 7}).status_code == 404
    assert client.get(f"{URL}/{job.label}/logs", {"offset": -1}).status_code == 400


def test_events_go_on_from_where_the_last_ended(client, olga, project):
    job = a_job(olga, project)
    first = client.get(f"{URL}/{job.label}/events").json()
    assert [e["code"] or e["new"] for e in first["results"]] == ["submitted", "queued"]
    event_record(job, "looked", verbatim("somebody looked"))
    more = client.get(f"{URL}/{job.label}/events", {"since": first["next_since"]}).json()
    assert [e["code"] for e in more["results"]] == ["looked"]


def test_usage_is_units_times_the_time_bound(client, olga, project):
    job = a_job(olga, project)
    _run(job, bound_seconds=3600)
    _run(job, bound_seconds=1800)
    assert usage_of([job]) == {job.pk: 16_000 * 5400}
    # 16,000/56,000 of a GPU for 1.5 hours, rounded up.
    assert client.get(f"{URL}/{job.label}").json()["gpu_hours"] == "0.4286"
    assert str(gpu_hours(1)) == "0.0001"
    assert str(gpu_hours(0)) == "0.0000"


def test_a_foreign_holder_is_seen_as_held_but_not_named(client, olga, project):
    stranger = a_user("ott")
    theirs = a_job(stranger, a_project("speech", stranger), name="secret-name")
    mine = a_job(olga, project, name="mine")
    for job in (theirs, mine):
        Allocation.objects.filter(replica=_run(job)).update(status="bound", released_at=None)
    answer = client.get("/api/v1/slices")
    rows = answer.json()["results"]
    assert [row["held"] for row in rows] == [True, True]
    assert {row["holder"]["name"] for row in rows if row["holder"]} == {"mine"}
    assert b"secret-name" not in answer.content + client.get("/api/v1/gpus").content


@pytest.mark.parametrize("path", ["gpus", "slices", "nodes", "projects", "quotas", "tokens"])
def test_lists_take_a_fixed_number_of_queries(client, olga, project, path):
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert client.get(f"/api/v1/{path}").status_code == 200
        return len(seen)

    _run(a_job(olga, project))
    queries()
    one = queries()
    for i in range(4):
        a_node(f"more-{i}", gpus=2)
        a_project(f"more-{i}", olga)
    queries()  # the first call after a change of the cluster reads its snapshot anew
    assert queries() == one
