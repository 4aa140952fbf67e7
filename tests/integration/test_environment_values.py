"""Tokens in the environments of jobs: their owner and admins read them, others the names alone."""

import pytest
from django.urls import reverse

from portal.accounts.models import Membership, Role
from portal.jobs.models import Job
from scheduler.core.request.program import HIDDEN_VALUE
from tests.support.rows import a_job, a_project, a_request, a_user

pytestmark = pytest.mark.django_db

SECRET = "hf_of_olga"


@pytest.fixture
def job() -> Job:
    olga = a_user("olga")
    return a_job(olga, a_project("vision", olga), env={"HF_TOKEN": SECRET})


def signed_in(client, job, role):
    reader = a_user("ray")
    Membership.objects.create(project=job.project, user=reader, role=role)
    # A member elsewhere, so that the request form is offered.
    a_project("speech", reader)
    client.force_login(reader)
    return client


def readings(client, job) -> dict[str, str]:
    """Every place where a job's request is read, as text."""
    addresses = {
        "rest": f"/api/v1/jobs/{job.label}",
        "page": reverse("web:job_spec", args=[job.label]),
        "form": f"{reverse('web:request')}?like={job.label}",
    }
    answers = {place: client.get(address) for place, address in addresses.items()}
    assert {answer.status_code for answer in answers.values()} == {200}
    return {place: answer.content.decode() for place, answer in answers.items()}


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER])
def test_finding_2_6_others_read_names_of_variables_and_no_value(client, job, role):
    texts = readings(signed_in(client, job, role), job)
    assert [place for place, text in texts.items() if SECRET in text] == []
    assert all("HF_TOKEN" in text and HIDDEN_VALUE in text for text in texts.values())


def test_project_admins_read_the_values_that_they_may_submit_again(client, job):
    texts = readings(signed_in(client, job, Role.ADMIN), job)
    assert all(SECRET in text for text in texts.values())


def test_a_copy_with_hidden_values_is_refused_until_they_are_written(client, job):
    signed_in(client, job, Role.MEMBER)
    copied = client.get(f"/api/v1/jobs/{job.label}").json()["request"]
    answer = client.post("/api/v1/jobs", copied, content_type="application/json")
    assert answer.status_code == 400
    assert "write its value" in answer.json()["errors"][0]["message"]
    copied["env"]["HF_TOKEN"] = "mine"
    answer = client.post("/api/v1/jobs", copied, content_type="application/json")
    assert answer.status_code == 201


def test_its_owner_reads_them_also_as_a_viewer(client, job):
    Membership.objects.filter(user=job.owner).update(role=Role.VIEWER)
    client.force_login(job.owner)
    assert client.get(f"/api/v1/jobs/{job.label}").json()["request"]["env"] == {"HF_TOKEN": SECRET}


@pytest.mark.parametrize(
    ("name", "warned"),
    [
        ("HF_TOKEN", True),
        ("WANDB_API_KEY", True),
        ("db_password", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("GITHUBTOKEN", True),
        ("TOKENIZERS_PARALLELISM", False),
        ("MONKEY", False),
        ("KEYBOARD", False),
        ("BATCH", False),
    ],
)
def test_a_variable_that_looks_like_a_secret_gets_a_warning(client, name, warned):
    olga = a_user()
    client.force_login(olga)
    body = a_request(a_project("", olga), memory="8GiB", env={name: "value"})
    places = ("/api/v1/jobs", "/api/v1/jobs?dry_run=true")
    answers = [client.post(place, body, content_type="application/json") for place in places]
    assert [answer.status_code for answer in answers] == [201, 200]
    for answer in answers:
        assert [each["field"] for each in answer.json()["warnings"]] == ["env"] * warned
