"""What a project's jobs may reach: set by admins, audited, and part of the node's document."""

import pytest

from agents.contract.egress import EgressPolicy
from portal.accounts.services import project_egress_set
from portal.audit.models import AuditEntry
from scheduler.core.model.states import JobStatus
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice)


def test_a_job_goes_to_a_node_that_limits_it_and_its_document_says_how(alice, vision):
    node = a_node()
    project_egress_set(project=vision, egress=EgressPolicy.INTERNET, actor="admin")
    job = a_job(alice, vision)
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.QUEUED
    assert job.reason["code"] == "node_unavailable"
    assert "cannot limit what jobs reach" in job.reason["sentence"]
    node.limits_egress = True
    node.report()
    settle(node)
    (replica,) = node.hear().replicas
    assert replica.egress is EgressPolicy.INTERNET


def test_an_attempt_keeps_what_its_project_said_when_it_was_placed(alice, vision):
    node = a_node()
    a_job(alice, vision)
    settle(node)
    project_egress_set(project=vision, egress=EgressPolicy.NONE, actor="admin")
    settle(node)
    (replica,) = node.hear().replicas
    assert replica.egress is EgressPolicy.ALL


def test_a_change_is_a_line_of_the_audit_and_other_words_are_refused(client, vision):
    client.force_login(a_user("root", is_staff=True, is_superuser=True))

    def put(egress):
        address = f"/api/v1/projects/{vision.slug}/egress"
        return client.put(address, {"egress": egress}, "application/json")

    assert put("none").json()["egress"] == "none"
    line = AuditEntry.objects.get(action="project_egress_set")
    assert (line.actor, line.before, line.after) == ("root", {"egress": "all"}, {"egress": "none"})
    assert (put("some").status_code, put("").status_code) == (400, 400)
    vision.refresh_from_db()
    assert vision.egress == "none"


def test_the_settings_page_has_it_and_keeps_the_rest(client, vision):
    client.force_login(a_user("root", is_staff=True, is_superuser=True))
    address = f"/projects/{vision.slug}/settings"
    page = client.get(address)
    assert page.status_code == 200
    typed = {field.name: field.value() for field in page.context["form"]}
    typed = {
        name: value for name, value in typed.items() if value is not None and value is not False
    }
    assert client.post(address, typed | {"egress": "none"}).status_code == 302
    vision.refresh_from_db()
    assert vision.egress == "none"
    assert client.post(address, typed | {"egress": "some"}).status_code == 400
