"""Registries of projects: sealed, scoped, given to the node that pulls alone, and to no job."""

import pytest
from django.test import override_settings
from django.urls import reverse
from django.utils import timezone

from agents.contract.registries import PULL_CREDENTIAL_PATH
from portal.accounts.models import Role, User
from portal.audit.models import AuditEntry
from portal.errors import Refused
from portal.jobs.models import Attempt, Job
from portal.registries.models import REGISTRY_SEAL, Registry
from portal.registries.services import registry_delete, registry_set
from tests.integration.test_job_secrets import call_secrets
from tests.support.agent_calls import an_agent
from tests.support.replica_rows import a_replica
from tests.support.rows import a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD, OTHER = "canary-0123456789", "another-canary-9876"


def signed_in(project, address="ghcr.io/team", password=PASSWORD):
    root = User.objects.filter(is_superuser=True).first() or a_user("root", is_superuser=True)
    return registry_set(
        actor=root, project=project, address=address, user="robot", password=password
    )


@pytest.fixture
def vision():
    """A project with an admin and a member."""
    ada, mia = a_user("ada"), a_user("mia")
    home = a_project("vision", ada, role=Role.ADMIN)
    home.memberships.create(user=mia, role=Role.MEMBER)
    return home, ada, mia


def a_replica_of(agent, image):
    replica = a_replica(agent.node)
    Job.objects.filter(pk=replica.attempt.job_id).update(image=image)
    return replica


def credential(agent, replica):
    return call_secrets(agent, replica.pk, path=PULL_CREDENTIAL_PATH).json()["credential"]


def test_a_password_is_sealed_and_audit_lines_have_none(vision):
    home, ada, _ = vision
    row = signed_in(home)
    assert PASSWORD not in str(Registry.objects.values().get(pk=row.pk))
    signed_in(home, password=OTHER)
    registry_delete(actor=ada, project=home, address="ghcr.io/team")
    lines = list(AuditEntry.objects.filter(noun="registry").order_by("pk").values())
    assert [(line["action"], line["noun_id"]) for line in lines] == [
        ("registry_set", "ghcr.io/team"),
        ("registry_set", "ghcr.io/team"),
        ("registry_delete", "ghcr.io/team"),
    ]
    assert PASSWORD not in str(lines) and OTHER not in str(lines)


@pytest.mark.parametrize(
    ("changed", "field", "why"),
    [
        ({"address": "https://ghcr.io"}, "registry", "is not the host"),
        ({"address": "a.example/" + "b" * 250}, "registry", "at most 255"),
        ({"user": "a:b"}, "user", "neither colons"),
        ({"user": " "}, "user", "1 to 255"),
        ({"password": ""}, "password", "NUL"),
        ({"password": "a\0b"}, "password", "NUL"),
        ({"password": "\ud800"}, "password", "text"),
        ({"password": "x" * 16_385}, "password", "16 KiB"),
    ],
)
def test_what_cannot_be_a_credential_is_refused_with_a_sentence(vision, changed, field, why):
    home, ada, _ = vision
    values = {"address": "ghcr.io", "user": "robot", "password": PASSWORD} | changed
    with pytest.raises(Refused, match=why) as refused:
        registry_set(actor=ada, project=home, **values)
    assert (refused.value.code, refused.value.field) == ("registry_invalid", field)


def test_a_project_has_at_most_twenty(vision):
    home, *_ = vision
    for n in range(20):
        signed_in(home, f"r{n}.example")
    signed_in(home, "r1.example", OTHER)
    with pytest.raises(Refused, match="20 registries already"):
        signed_in(home, "one-more.example")


def test_the_node_that_pulls_gets_the_credential_of_the_image_and_of_its_project(vision):
    agent, other = an_agent(), an_agent()
    replica = a_replica_of(agent, "ghcr.io/team/app:1")
    home = replica.attempt.job.project
    assert credential(agent, replica) is None
    signed_in(home, "ghcr.io", OTHER), signed_in(home)
    signed_in(vision[0], "ghcr.io/team/app", "of vision alone")
    assert credential(agent, replica) == {
        "registry": "ghcr.io/team",
        "user": "robot",
        "password": PASSWORD,
    }
    assert [row.address for row in Registry.objects.exclude(used_at=None)] == ["ghcr.io/team"]
    refused = call_secrets(other, replica.pk, path=PULL_CREDENTIAL_PATH)
    assert refused.json()["error"]["code"] == "replica_unknown"
    Attempt.objects.filter(pk=replica.attempt_id).update(ended_at=timezone.now())
    refused = call_secrets(agent, replica.pk, path=PULL_CREDENTIAL_PATH)
    assert (refused.status_code, PASSWORD in refused.text) == (404, False)


def test_images_of_other_registries_are_pulled_without_one():
    agent = an_agent()
    replica = a_replica_of(agent, "python:3.12")
    signed_in(replica.attempt.job.project)
    assert credential(agent, replica) is None


def test_one_that_no_key_opens_is_named():
    agent = an_agent()
    replica = a_replica_of(agent, "ghcr.io/team/app:1")
    with override_settings(SECRET_KEY="forgotten"):
        signed_in(replica.attempt.job.project)
    answer = call_secrets(agent, replica.pk, path=PULL_CREDENTIAL_PATH).json()
    assert (answer["credential"], answer["unreadable"]) == (None, "ghcr.io/team")


def test_an_admin_sets_and_deletes_one_on_a_page_and_a_member_sees_it(client, vision):
    home, ada, mia = vision
    client.force_login(ada)
    address = reverse("web:registries", args=["vision"])
    typed = {"registry": "ghcr.io/team", "user": "robot", "password": f"{PASSWORD}\r\nline 2"}
    done = client.post(address, typed, follow=True).content.decode()
    assert "ghcr.io/team is set" in done and PASSWORD not in done
    assert REGISTRY_SEAL.unseal(home.registries.get().sealed) == f"{PASSWORD}\nline 2"
    wrong = client.post(address, typed | {"registry": "no registry"})
    text = wrong.content.decode()
    assert wrong.status_code == 400 and 'id="registry-error"' in text and PASSWORD not in text
    client.force_login(mia)
    text = client.get(address).content.decode()
    assert "ghcr.io/team" in text and "robot" in text and "Set the credential" not in text
    assert address in client.get(reverse("web:project", args=["vision"])).content.decode()
    client.force_login(ada)
    question = reverse("web:registry_delete", args=["vision", "ghcr.io/team"])
    assert "for ghcr.io/team?" in client.get(question).content.decode()
    client.post(question)
    assert not home.registries.exists()
