"""What admins may ask before they approve: which GPUs would change, and what the job would get."""

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from portal.accounts.services import project_share_set
from portal.audit.models import AuditEntry
from portal.inventory.models import Gpu, Slice
from portal.jobs.holds import job_approve
from portal.jobs.models import Job
from portal.jobs.services import job_cancel
from portal.planning.history_cache import process_history
from scheduler.core.model.states import JobStatus, SliceStatus
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)

PREVIEW = "/api/v1/partition-preview"


@pytest.fixture
def root():
    return a_user("root", is_superuser=True)


@pytest.fixture
def api(root):
    client = APIClient()
    client.force_login(root)
    return client


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice)


def parts(some):
    return [(part["profile"], part["start"], part["held"]) for part in some]


def steps(change):
    return [step["step"] for step in change["steps"]]


def asks_first(vision):
    project_share_set(project=vision, actor="admin", approval_units=16_000)


def test_a_preview_of_an_approval_says_where_the_job_would_start_and_comes_true(
    api, root, alice, vision
):
    node = a_node("n1")
    a_job(alice, vision)
    settle(node)
    asks_first(vision)
    job = a_job(alice, vision, device={"mig": "3g.71gb"})
    found = api.get(PREVIEW, {"job": job.label}).json()
    assert found["job"] == {"job": job.label, "fate": "start", "reason": None}
    change = next(c for c in found["changes"] if "place" in steps(c))
    assert (change["node"], change["gpu"], change["gpu_uuid"]) == ("n1", 0, "GPU-n1-0")
    new = [part for part in change["after"] if part not in change["before"]]
    assert [(part["profile"], part["held"]) for part in new] == [("3g.71gb", True)]
    job.refresh_from_db()
    assert job.status == JobStatus.AWAITING_APPROVAL, "a question changes nothing"
    assert Slice.objects.count() == 1
    job_approve(job=job, actor=root)
    settle(node)
    made = Slice.objects.get(profile="3g.71gb")
    assert (made.profile, made.start) == (new[0]["profile"], new[0]["start"])


def test_a_preview_shows_the_idle_slices_that_would_go_for_the_job(api, alice, vision):
    node = a_node("n1")
    short = [a_job(alice, vision) for _ in range(2)]
    settle(node)
    node.finish()
    settle(node)
    assert {Job.objects.get(pk=job.pk).status for job in short} == {JobStatus.SUCCEEDED}
    Gpu.objects.update(settles_at=None)
    asks_first(vision)
    job = a_job(alice, vision, device={"gpus": 1})
    found = api.get(PREVIEW, {"job": job.label}).json()
    assert (found["job"]["fate"], found["job"]["reason"]["code"]) == ("partition", "repartition")
    (change,) = found["changes"]
    assert steps(change) == ["merge"]
    assert [part["held"] for part in change["before"]] == [False, False]
    assert change["after"] == []
    assert not Slice.objects.filter(status=SliceStatus.DELETING).exists()


def test_a_job_that_would_wait_has_its_reason(api, alice, vision):
    node = a_node("n1")
    a_job(alice, vision, device={"gpus": 1})
    settle(node)
    asks_first(vision)
    job = a_job(alice, vision, device={"gpus": 1})
    found = api.get(PREVIEW, {"job": job.label}).json()
    assert (found["job"]["fate"], found["job"]["reason"]["code"]) == ("wait", "resources")
    assert found["changes"] == []


def test_without_a_job_it_shows_what_the_policy_would_prepare_by_node(api, alice, vision):
    nodes = [a_node("n1"), a_node("n2")]
    for _ in range(4):
        job_cancel(job=a_job(alice, vision, begin_at="+1h"), actor="alice")
    a_job(alice, vision, device={"mig": "4g.71gb"})
    settle(*nodes)
    process_history().refresh(timezone.now())
    found = api.get(PREVIEW).json()
    assert (found["warm"], found["job"]) == (False, None)
    assert {change["node"] for change in found["changes"]} <= {"n1", "n2"}
    carved = [change for change in found["changes"] if "carve" in steps(change)]
    assert carved
    for change in carved:
        new = set(parts(change["after"])) - set(parts(change["before"]))
        assert {held for _, _, held in new} == {False}
    at = carved[0]["node"]
    only = api.get(PREVIEW, {"node": at}).json()["changes"]
    assert only == [change for change in found["changes"] if change["node"] == at]


def test_what_is_not_there_and_what_no_longer_waits_is_refused(api, alice, vision):
    node = a_node("n1")
    job = a_job(alice, vision)
    settle(node)
    for query, status, code in (
        ({"job": "J-9999"}, 404, "not_found"),
        ({"node": "n9"}, 404, "not_found"),
        ({"job": job.label}, 409, "not_waiting"),
    ):
        answer = api.get(PREVIEW, query)
        assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_an_admin_pins_a_gpu_and_it_is_in_the_audit_lines(api, alice, vision):
    node = a_node("n1")
    pinned = api.post("/api/v1/gpus/GPU-n1-0/pin", {"reason": "a course"}, format="json")
    assert pinned.status_code == 200
    shown = pinned.json()
    assert (shown["pinned"], shown["pinned_by"], shown["pinned_because"]) == (
        True, "root", "a course",
    )  # fmt: skip
    job = a_job(alice, vision)
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.QUEUED, "nothing is carved there"
    assert api.get(PREVIEW, {"job": job.label}).json()["job"]["fate"] == "wait"
    assert api.post("/api/v1/gpus/GPU-n1-0/unpin").json()["pinned"] is False
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING
    lines = AuditEntry.objects.filter(noun="gpu").order_by("pk")
    assert [(line.action, line.actor, line.noun_id) for line in lines] == [
        ("gpu_pin", "root", "GPU-n1-0"),
        ("gpu_unpin", "root", "GPU-n1-0"),
    ]


@pytest.mark.parametrize(
    ("address", "body", "status"),
    [
        ("/api/v1/gpus/GPU-n1-0/pin", {"reason": " "}, 400),
        ("/api/v1/gpus/GPU-n1-0/pin", {}, 400),
        ("/api/v1/gpus/GPU-n9-0/pin", {"reason": "a course"}, 404),
        ("/api/v1/gpus/GPU-n9-0/unpin", {}, 404),
    ],
)
def test_a_pin_needs_a_gpu_and_a_reason(api, address, body, status):
    a_node("n1")
    assert api.post(address, body, format="json").status_code == status
    assert not Gpu.objects.get().pinned
