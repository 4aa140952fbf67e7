"""Thresholds of a project: what is above one waits for an admin, and everybody reads which."""

import pytest
from django.test import Client
from rest_framework.test import APIClient

from portal.accounts.models import Role
from portal.accounts.services import project_share_set
from portal.audit.models import AuditEntry
from portal.errors import Refused
from portal.jobs.holds import job_approve, job_refuse
from portal.web.wording.evidence import evidence_rows
from scheduler.core.model.states import JobStatus
from tests.support.rows import a_job, a_node, a_project, a_request, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)

HOUR_OF_A_GPU = 56_000 * 3_600
# 2g.35gb holds 2/7 of a GPU.
SMALL = {"time_limit": "1h"}


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice)


@pytest.fixture
def ada(vision):
    found = a_user("ada")
    vision.memberships.create(user=found, role=Role.ADMIN)
    return found


def status_of(job):
    job.refresh_from_db()
    return job.status


@pytest.mark.parametrize(
    ("share", "large", "says"),
    [
        (
            {"approval_units": 16_000},
            {"device": {"gpus": 1}},
            "Jobs with more than 0.29 GPUs need approval by an admin of vision; this job has 1",
        ),
        (
            {"approval_seconds": 3_600},
            {"time_limit": "2h"},
            "Jobs that may run longer than 1h need approval by an admin of vision; "
            "this job may run 2h",
        ),
        (
            {"approval_unit_seconds": 3 * HOUR_OF_A_GPU},
            {"device": {"gpus": 1}, "time_limit": "4h"},
            "Jobs that may use more than 3 GPU-hours need approval by an admin of vision; "
            "this job may use 4",
        ),
        (
            {"approval_high": True},
            {"priority": "high"},
            "Jobs with priority high need approval by an admin of vision",
        ),
    ],
    ids=["units", "time", "GPU-hours", "priority"],
)
def test_what_is_above_a_threshold_waits_and_says_which(alice, vision, ada, share, large, says):
    project_share_set(project=vision, actor="admin", **share)
    node = a_node(gpus=2)
    small, job = a_job(alice, vision, **SMALL), a_job(alice, vision, **SMALL | large)
    settle(node)
    assert status_of(small) == JobStatus.RUNNING
    assert status_of(job) == JobStatus.AWAITING_APPROVAL
    assert (job.reason["code"], job.reason["class"]) == ("approval", "ask")
    assert job.reason["sentence"] == says
    job_approve(job=job, actor=ada)
    settle(node)
    assert status_of(job) == JobStatus.RUNNING


def test_what_is_just_at_its_thresholds_waits_for_nobody(alice, vision):
    project_share_set(
        project=vision,
        actor="admin",
        approval_units=56_000,
        approval_seconds=3_600,
        approval_unit_seconds=HOUR_OF_A_GPU,
        approval_high=True,
    )
    node = a_node()
    job = a_job(alice, vision, device={"gpus": 1}, time_limit="1h", priority="normal")
    settle(node)
    assert status_of(job) == JobStatus.RUNNING


def test_replicas_count_together(alice, vision):
    project_share_set(project=vision, actor="admin", approval_unit_seconds=HOUR_OF_A_GPU)
    a_node(gpus=2)
    job = a_job(alice, vision, device={"gpus": 1}, replicas=2, time_limit="40m")
    assert status_of(job) == JobStatus.AWAITING_APPROVAL
    assert job.reason["evidence"]["needed_unit_seconds"] == 2 * 56_000 * 40 * 60


def test_the_first_threshold_is_the_reason_and_the_evidence_has_all(alice, vision):
    project_share_set(
        project=vision,
        actor="admin",
        approval_units=0,
        approval_unit_seconds=0,
        approval_high=True,
    )
    a_node()
    job = a_job(alice, vision, device={"gpus": 1}, time_limit="1h", priority="high")
    assert "more than 0 GPUs" in job.reason["sentence"]
    assert evidence_rows(job.reason) == [
        ("Needed", "1 GPU"),
        ("Allowed without approval", "0 GPU"),
        ("Needed", "1 GPU-hours"),
        ("Allowed without approval", "0 GPU-hours"),
        ("Priority", "high"),
    ]


def test_who_decides_and_about_what_is_in_the_audit_lines(alice, vision, ada):
    project_share_set(project=vision, actor="admin", approval_high=True)
    a_node()
    one, two = (a_job(alice, vision, priority="high") for _ in range(2))
    with pytest.raises(Refused, match="forbidden"):
        job_approve(job=one, actor=alice)
    job_approve(job=one, actor=ada)
    job_refuse(job=two, actor=ada, reason="not this week")
    approved, refused = AuditEntry.objects.filter(noun="job").order_by("pk")
    assert (approved.action, approved.actor, approved.noun_id) == ("job_approve", "ada", one.label)
    assert (refused.action, refused.actor, refused.noun_id) == ("job_refuse", "ada", two.label)
    assert refused.after["because"] == "not this week"
    for line in (approved, refused):
        approval = "Jobs with priority high need approval by an admin of vision"
        assert line.after["approval"] == approval


def test_rest_and_the_form_say_so_before_anybody_submits(alice, vision):
    project_share_set(project=vision, actor="admin", approval_unit_seconds=0)
    a_node()
    api = APIClient()
    api.force_login(alice)
    said = api.post("/api/v1/jobs?dry_run=true", a_request(vision), format="json").json()
    assert (said["possible"], said["reason"]) == (True, None)
    assert said["approval"]["code"] == "approval"
    shown = api.get("/api/v1/projects/vision").json()
    assert (shown["approval_unit_seconds"], shown["approval_units"]) == (0, None)
    assert shown["approval_high"] is False
    job = api.post("/api/v1/jobs", a_request(vision), format="json").json()
    assert (job["status"], job["reason"]["code"]) == ("awaiting_approval", "approval")
    page = Client()
    page.force_login(alice)
    assert "may use more than 0 GPU-hours" in page.get(f"/jobs/{job['id']}/").content.decode()


def test_the_thresholds_are_set_in_the_console_with_help_beside_them(vision):
    root = Client()
    root.force_login(a_user("root", is_superuser=True, is_staff=True))
    page = f"/admin/accounts/project/{vision.pk}/change/"
    assert "201,600,000 unit-seconds" in root.get(page).content.decode()
    form = {"name": "Vision", "weight": 1, "max_running": 0, "max_pending": 0}
    form |= {"approval_unit_seconds": 5 * HOUR_OF_A_GPU, "approval_high": "on"}
    form |= {"memberships-TOTAL_FORMS": 0, "memberships-INITIAL_FORMS": 0}
    root.post(page, form)
    vision.refresh_from_db()
    assert (vision.approval_unit_seconds, vision.approval_high) == (5 * HOUR_OF_A_GPU, True)
    line = AuditEntry.objects.get(action="project_share")
    assert line.before == {"approval_unit_seconds": None, "approval_high": False}


@pytest.mark.parametrize("wrong", [{"approval_high": 1}, {"approval_unit_seconds": -1}], ids=str)
def test_a_threshold_that_makes_no_sense_is_refused(vision, wrong):
    with pytest.raises(Refused, match="share_invalid"):
        project_share_set(project=vision, actor="admin", **wrong)
