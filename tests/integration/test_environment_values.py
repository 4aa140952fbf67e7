"""Finding 2.6 of the security review: a viewer of a project reads tokens in jobs' environments."""

import pytest
from django.urls import reverse

from portal.accounts.models import Membership, Role
from portal.jobs.models import Job
from portal.jobs.selectors import HIDDEN_VALUE
from tests.support.rows import a_job, a_project, a_user

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


def test_finding_2_6_a_viewer_reads_names_of_variables_and_no_value(client, job):
    texts = readings(signed_in(client, job, Role.VIEWER), job)
    assert [place for place, text in texts.items() if SECRET in text] == []
    assert all("HF_TOKEN" in text and HIDDEN_VALUE in text for text in texts.values())


def test_members_read_the_values_that_they_may_submit_again(client, job):
    texts = readings(signed_in(client, job, Role.MEMBER), job)
    assert all(SECRET in text for text in texts.values())


def test_its_owner_reads_them_also_as_a_viewer(client, job):
    Membership.objects.filter(user=job.owner).update(role=Role.VIEWER)
    client.force_login(job.owner)
    assert client.get(f"/api/v1/jobs/{job.label}").json()["request"]["env"] == {"HF_TOKEN": SECRET}
