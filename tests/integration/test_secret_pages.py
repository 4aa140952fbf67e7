"""Pages of secrets: set, a new value, deleted. No page has a value, also not after a mistake."""

import pytest
from django.urls import reverse

from portal.accounts.models import Role
from portal.job_secrets.models import JOB_SECRET_SEAL, JobSecret
from tests.support.rows import a_project, a_user

pytestmark = pytest.mark.django_db

VALUE = "canary-0123456789"


@pytest.fixture
def ada(client):
    ada = a_user("ada")
    client.force_login(ada)
    return ada


def test_a_secret_is_set_given_a_new_value_and_deleted(client, ada):
    address = reverse("web:secrets")
    done = client.post(address, {"name": "HF_TOKEN", "value": f"{VALUE}\r\nline 2"}, follow=True)
    assert "HF_TOKEN is set" in done.content.decode() and VALUE not in done.content.decode()
    (row,) = JobSecret.objects.all()
    assert JOB_SECRET_SEAL.unseal(row.sealed) == f"{VALUE}\nline 2"
    client.post(address, {"name": "HF_TOKEN", "value": "another value"})
    row.refresh_from_db()
    assert JOB_SECRET_SEAL.unseal(row.sealed) == "another value"
    question = client.get(reverse("web:secret_delete", args=["HF_TOKEN"]))
    assert "Delete HF_TOKEN?" in question.content.decode()
    client.post(reverse("web:secret_delete", args=["HF_TOKEN"]))
    assert not JobSecret.objects.exists()


def test_a_refused_form_keeps_the_name_and_forgets_the_value(client, ada):
    answer = client.post(reverse("web:secrets"), {"name": "no good", "value": VALUE})
    text = answer.content.decode()
    assert answer.status_code == 400 and VALUE not in text
    assert "no good" in text and 'id="name-error"' in text


def test_a_project_admin_sets_what_members_only_see(client, ada):
    home = a_project("vision", ada, role=Role.ADMIN)
    address = reverse("web:project_secrets", args=["vision"])
    client.post(address, {"name": "WANDB_API_KEY", "value": VALUE})
    mia = a_user("mia")
    home.memberships.create(user=mia, role=Role.MEMBER)
    client.force_login(mia)
    text = client.get(address).content.decode()
    assert "WANDB_API_KEY" in text and "ada" in text and "Set the secret" not in text
    assert (
        reverse("web:project_secrets", args=["vision"])
        in client.get(reverse("web:project", args=["vision"])).content.decode()
    )
