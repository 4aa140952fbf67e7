"""Labels, taints and pins of a node in the console: checked, previewed, saved once, audited."""

import pytest
from django.test import Client

from portal.audit.models import AuditEntry
from portal.inventory.models import Node
from portal.inventory.node_settings import node_labels_set
from tests.support.markup import Markup
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db
ADDRESS = "/console/nodes/n1/settings"


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(a_user("root", is_superuser=True, is_staff=True))
    return client


@pytest.fixture
def node() -> Node:
    return a_node("n1").row


def typed(client: Client) -> dict[str, str]:
    """The form as the page fills it in."""
    (form,) = (
        form
        for form in Markup(client.get(ADDRESS).content.decode()).forms
        if "taints" in form.fields
    )
    return form.fields


def post(client: Client, step: str, fields: dict[str, str]):
    return client.post(ADDRESS, fields | {"step": step})


def test_the_effect_on_waiting_jobs_is_shown_before_anything_is_saved(root, node):
    alice = a_user("alice")
    vision = a_project("vision", alice)
    lost = a_job(alice, vision, name="picky")
    kept = a_job(alice, vision, name="tolerant", tolerates=["team"])
    page = post(root, "preview", typed(root) | {"taints": "team=a"}).content.decode()
    assert "1 waiting job could no longer start here" in page
    assert f"{lost.label} picky" in page and kept.label not in page
    assert "2 waiting jobs may start here now, and 1 afterwards" in page
    node.refresh_from_db()
    assert node.taints == []


def test_labels_and_taints_are_saved_each_with_its_audit_line(root, node):
    fields = typed(root) | {"labels": "nvme, zone=a\nnvme", "taints": "team=a"}
    assert post(root, "save", fields).status_code == 400, "a taint needs a reason"
    answer = post(root, "save", fields | {"taint_reason": "paid by team a"})
    assert answer.status_code == 302
    node.refresh_from_db()
    assert (node.labels, node.taints) == (["nvme", "zone=a"], ["team=a"])
    assert node.taint_reason == "paid by team a"
    lines = AuditEntry.objects.order_by("id").values_list("action", "actor")
    assert list(lines) == [("node_label", "root"), ("node_taint", "root")]
    assert "nvme" in root.get("/console/nodes/n1/").content.decode()
    post(root, "save", typed(root))
    assert AuditEntry.objects.count() == 2, "nothing was changed"


def test_what_is_no_label_is_named_at_its_field(root, node):
    page = post(root, "preview", typed(root) | {"labels": "ok a=b=c"})
    text = page.content.decode()
    assert page.status_code == 400
    assert "&#x27;a=b=c&#x27;: write a key" in text
    assert 'aria-describedby="labels-error labels-help"' in text


def test_a_change_by_somebody_else_is_not_overwritten_unseen(root, node):
    fields = typed(root) | {"labels": "nvme"}
    node_labels_set(node=node, labels=["zone=b"], actor="boss")
    answer = post(root, "save", fields)
    assert answer.status_code == 412
    node.refresh_from_db()
    assert node.labels == ["zone=b"]
    (form,) = (f for f in Markup(answer.content.decode()).forms if "taints" in f.fields)
    assert post(root, "save", form.fields).status_code == 302
    node.refresh_from_db()
    assert node.labels == ["nvme"]


def test_a_gpu_is_pinned_with_a_reason_and_unpinned(root, node):
    address = "/console/nodes/n1/gpus/0/pin"
    root.post(address, {"pinned": "1", "reason": " "})
    assert not node.gpus.get(index=0).pinned
    root.post(address, {"pinned": "1", "reason": "a course on Friday"})
    gpu = node.gpus.get(index=0)
    assert (gpu.pinned, gpu.pin_reason, gpu.pin_actor) == (True, "a course on Friday", "root")
    assert "a course on Friday" in root.get(ADDRESS).content.decode()
    root.post(address, {"pinned": "0"})
    assert not node.gpus.get(index=0).pinned
    assert list(AuditEntry.objects.order_by("id").values_list("action", flat=True)) == [
        "gpu_pin",
        "gpu_unpin",
    ]
    assert root.post("/console/nodes/n1/gpus/99/pin", {"pinned": "1"}).status_code == 404
