"""REST says why a job failed, and lists the jobs that failed by one cause."""

import pytest
from rest_framework.test import APIClient

from portal.diagnosis.services import job_diagnose
from portal.jobs.failure_causes import FailureCause
from portal.jobs.models import Job
from tests.support.failed_jobs import a_failed_job
from tests.support.rows import a_node, a_project, a_user

pytestmark = pytest.mark.django_db
LOG = (
    b'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n'
    b"ModuleNotFoundError: No module named 'vllm'\n"
)


@pytest.fixture
def job():
    alice = a_user("alice")
    a_node("node-a")
    job = a_failed_job(alice, a_project("vision", alice), LOG)
    job_diagnose(job_id=job.pk)
    return Job.objects.get(pk=job.pk)


def get(user, path, **query):
    client = APIClient()
    client.force_authenticate(user)
    return client.get(f"/api/v1/{path}", query)


def test_a_failed_job_has_its_diagnosis(job):
    row = get(job.owner, f"jobs/{job.label}").json()
    diagnosis = row["diagnosis"]
    assert diagnosis["cause"] == "missing_module"
    assert diagnosis["confidence"] == "certain"
    assert diagnosis["sentence"] == "The image has no Python module vllm"
    assert diagnosis["evidence"] == {
        "attempt": 1,
        "rank": 0,
        "line": 3,
        "text": "ModuleNotFoundError: No module named 'vllm'",
    }
    assert diagnosis["remedy"]["action"] == "edit"
    assert "log_bytes" not in diagnosis
    (attempt,) = row["attempts"]
    assert attempt["finding"] == {
        name: value for name, value in diagnosis.items() if name not in ("advice", "remedy")
    }


def test_the_list_is_filtered_by_cause(job):
    found = get(job.owner, "jobs", cause="missing_module").json()["results"]
    assert [row["id"] for row in found] == [job.label]
    assert get(job.owner, "jobs", cause="gpu_memory").json()["results"] == []
    assert get(job.owner, "jobs", cause="sunspots").status_code == 400


def test_others_see_neither_the_job_nor_its_cause(job):
    bob = a_user("bob")
    assert get(bob, f"jobs/{job.label}").status_code == 404
    assert get(bob, "jobs", cause=str(FailureCause.MISSING_MODULE)).json()["results"] == []
