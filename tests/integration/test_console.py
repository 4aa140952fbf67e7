"""The console: what needs attention, projects and their people, and the audit trail."""

import csv
import io
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.contract.units import UNITS_PER_GPU
from portal.accounts.models import Membership, Role
from portal.accounts.services import project_share_set
from portal.audit.models import AuditEntry
from portal.audit.services import audit_record
from portal.inventory.models import Gpu, Node
from portal.jobs.models import Job
from portal.leases.models import TaskLease
from portal.quotas.budgets import budget_add
from portal.web.console.alerts import active_alerts
from portal.web.console.audit import spreadsheet_safe
from scheduler.core.model.states import GpuHealth, JobStatus, NodeStatus
from tests.support.rows import a_job, a_node, a_project, a_user
from tests.support.times import ago, ahead

pytestmark = pytest.mark.django_db


@pytest.fixture
def boss():
    return a_user("root", is_superuser=True, is_staff=True)


@pytest.fixture
def root(boss) -> Client:
    return as_(boss)


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice)


@pytest.fixture
def ada(vision):
    ada = a_user("ada")
    Membership.objects.create(project=vision, user=ada, role=Role.ADMIN)
    return ada


def as_(user) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_when_nothing_needs_an_admin_the_console_says_so(root, vision):
    a_node()
    for page in ("/console/", "/admin/"):
        assert "Nothing needs attention" in root.get(page).content.decode()


def test_everything_that_needs_an_admin_is_named_once(root, boss, alice, vision):
    nodes = [a_node(f"n{i}").row for i in range(3)]
    Node.objects.filter(pk=nodes[0].pk).update(status=NodeStatus.LOST)
    Node.objects.filter(pk=nodes[1].pk).update(facts={"blocks": ["no toolkit"]})
    Gpu.objects.filter(node=nodes[2]).update(health=GpuHealth.FAULTED)
    held = a_job(alice, vision)
    Job.objects.filter(pk=held.pk).update(reason={"code": "held", "class": "ask", "sentence": "x"})
    project_share_set(project=vision, actor="root", approval_units=0)
    asked = a_job(alice, vision)
    budget_add(
        project=vision,
        limit_unit_seconds=0,
        starts_at=ago(hours=1),
        ends_at=ahead(hours=1),
        actor="root",
    )
    TaskLease.objects.create(name="sweep", stamped_at=timezone.now() - timedelta(minutes=5))
    found = {need.key: need for need in active_alerts(boss)}
    assert list(found) == [
        "away",
        "blocked",
        "gpus",
        "duties",
        "approvals",
        "waiting-held",
        "budgets",
    ]
    assert found["away"].names == ("n0",)
    assert found["approvals"].names == (asked.label,)
    assert found["budgets"].names == ("vision",)
    page = root.get("/console/").content.decode()
    assert "7 items need attention" in page
    for need in found.values():
        assert need.count == 1
        assert need.href.replace("&", "&amp;") in page
        assert root.get(need.href).status_code == 200, need.href


def test_a_duty_that_somebody_does_or_did_just_now_needs_nobody(boss):
    now = timezone.now()
    old = now - timedelta(minutes=5)
    TaskLease.objects.create(name="sweep", stamped_at=old, expires_at=now + timedelta(minutes=1))
    TaskLease.objects.create(name="plan", stamped_at=old, rung=False)
    assert active_alerts(boss) == []
    TaskLease.objects.filter(name="plan").update(rung=True)
    assert [need.key for need in active_alerts(boss)] == ["duties"]


def test_what_needs_attention_is_read_in_few_queries(
    boss, alice, vision, django_assert_max_num_queries
):
    a_node()
    for _ in range(5):
        a_job(alice, vision)
    with django_assert_max_num_queries(13):
        active_alerts(boss)


@pytest.mark.parametrize(
    "page",
    [
        "console",
        "limits",
        "node_list",
        "images",
        "audit",
        "audit_csv",
    ],
)
def test_the_console_is_not_there_for_others(ada, page):
    assert as_(ada).get(reverse(f"web:{page}")).status_code == 404
    answer = Client().get(reverse(f"web:{page}"))
    assert answer.status_code == 302 and "/sign-in/" in answer["Location"]


def test_a_project_admin_puts_people_in_changes_roles_and_takes_them_out(ada, alice, vision):
    bob = a_user("bob")
    client = as_(ada)
    client.post("/projects/vision/member", {"user": "bob", "role": "viewer"})
    assert Membership.objects.get(user=bob).role == Role.VIEWER
    client.post("/projects/vision/member", {"user": "bob", "role": "admin"})
    assert Membership.objects.get(user=bob).role == Role.ADMIN
    client.post("/projects/vision/member", {"user": "bob", "do": "remove"})
    assert not Membership.objects.filter(user=bob).exists()
    told = AuditEntry.objects.order_by("pk").values_list("action", "actor")
    assert list(told) == [
        ("membership_set", "ada"),
        ("membership_set", "ada"),
        ("membership_remove", "ada"),
    ]
    history = client.get("/projects/vision/").content.decode()
    assert "membership_remove" in history


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"user": "nobody", "role": "member"}, "No user named"),
        ({"user": "alice", "role": "king"}, "Choose one of these roles"),
        ({"user": "ada", "do": "remove"}, "needs an admin"),
        ({"user": "<b>x</b>", "role": "member"}, "&lt;b&gt;x&lt;/b&gt;"),
    ],
    ids=["nobody", "no role", "last admin", "markup"],
)
def test_what_cannot_be_done_with_members_is_said(ada, alice, vision, body, says):
    answer = as_(ada).post("/projects/vision/member", body)
    assert answer.status_code == 400
    assert says in answer.content.decode()
    assert "<b>x" not in answer.content.decode()
    assert not AuditEntry.objects.exists()


def test_members_only_read_their_project_and_strangers_find_none(alice, vision):
    client = as_(alice)
    page = client.get("/projects/vision/").content.decode()
    assert "Set role" not in page and "alice" in page and "History" not in page
    body = {"user": "alice", "role": "admin"}
    assert client.post("/projects/vision/member", body).status_code == 404
    eve = as_(a_user("eve"))
    assert eve.get("/projects/vision/").status_code == 404
    assert eve.post("/projects/vision/member", body).status_code == 404
    assert "You are not in a project" in eve.get("/projects/").content.decode()


def test_the_list_shows_ones_projects_with_what_they_hold(alice, vision, root):
    a_project("biology")
    assert "biology" not in as_(alice).get("/projects/").content.decode()
    page = root.get("/projects/").content.decode()
    assert "2 projects" in page and "biology" in page and "vision" in page


@pytest.fixture
def trail(vision):
    for actor, action, project in (
        ("olga", "quota_set", vision),
        ("ada", "membership_set", None),
        ("=cmd()", "node_cordon", None),
    ):
        after = {"limit_units": UNITS_PER_GPU, "why": "+1"}
        audit_record(
            actor=actor, action=action, noun="quota", noun_id="x", project=project, after=after
        )
    AuditEntry.objects.filter(actor="ada").update(at=timezone.now() - timedelta(days=10))


@pytest.mark.parametrize(
    ("query", "actors"),
    [
        ("", {"olga", "ada", "=cmd()"}),
        ("q=olg", {"olga"}),
        ("actor=ada", {"ada"}),
        ("action=node_cordon", {"=cmd()"}),
        ("project=vision", {"olga"}),
        ("until=2001-01-01", set()),
        ("since=nonsense", {"olga", "ada", "=cmd()"}),
    ],
)
def test_the_audit_trail_is_searched_and_the_file_has_the_same(root, trail, query, actors):
    page = root.get(f"/console/audit/?{query}")
    assert {line.actor for line in page.context["lines"]} == actors
    answer = root.get(f"/console/audit.csv?{query}")
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
    assert {row["actor"].removeprefix("'") for row in rows} == actors
    assert answer["Content-Disposition"] == 'attachment; filename="audit.csv"'


def test_recent_lines_are_found_by_their_day(root, trail):
    day = (timezone.now() - timedelta(days=3)).date().isoformat()
    page = root.get(f"/console/audit/?since={day}")
    assert {line.actor for line in page.context["lines"]} == {"olga", "=cmd()"}
    wrong = root.get("/console/audit/?since=2026-13-45").content.decode()
    assert "Enter a date such as" in wrong and 'value="2026-13-45"' in wrong


def test_a_spreadsheet_computes_nothing_of_the_file(root, trail):
    text = b"".join(root.get("/console/audit.csv").streaming_content).decode()
    assert "'=cmd()" in text and "\n=cmd" not in text and ",=cmd" not in text
    for start in ("=1", "+1", "-1", "@x", "\tx", "\rx"):
        assert spreadsheet_safe(start).startswith("'")
    assert spreadsheet_safe("plain") == "plain"


def test_changes_are_told_in_gpus(root, trail):
    assert "1 GPU" in root.get("/console/audit/?actor=olga").content.decode()


def test_history_shows_markup_as_text(root, vision):
    audit_record(actor="<i>", action="x", noun="quota", noun_id="<u>", project=vision)
    page = root.get("/console/audit/").content.decode()
    assert "<i>" not in page and "&lt;i&gt;" in page


def test_nobody_waits_for_a_started_job(boss, alice, vision):
    a_node()
    job = a_job(alice, vision)
    Job.objects.filter(pk=job.pk).update(
        status=JobStatus.RUNNING, reason={"code": "held", "class": "ask"}
    )
    assert active_alerts(boss) == []
