"""The admin console: every noun opens, statuses are read-only, changes go through services."""

from __future__ import annotations

import re

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.test import Client

from portal.accounts.models import Membership, Project, Role
from portal.audit.models import AuditEntry, Event
from portal.inventory.models import JoinToken, Node
from portal.jobs.models import Job
from portal.quotas.models import PlannerPolicy, Quota
from portal.quotas.policy import POLICY_OPTIONS, current_policy, policy_set
from scheduler.core.model.states import JobStatus
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db
OURS = ("accounts", "inventory", "jobs", "allocations", "quotas", "catalogue", "audit", "duties")
# Reached through their parent, or nothing a person should look at.
WITHOUT_PAGE = {
    "Membership",
    "Dependency",
    "HelloNonce",
    "LatestSample",
    "AllocationHour",
    "AllocationSample",
    "InventoryVersion",
}
# Admins decide about these in the console.
WITHOUT_PAGE |= {"LimitRequest"}


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_user("root", is_superuser=True, is_staff=True))
    return client


def _messages(answer) -> str:
    return " ".join(str(message) for message in answer.context["messages"])


def test_every_noun_has_a_page():
    models = {m for app in OURS for m in apps.get_app_config(app).get_models()}
    missing = {m.__name__ for m in models if not admin.site.is_registered(m)}
    assert missing == WITHOUT_PAGE


@pytest.mark.parametrize("model", sorted(admin.site._registry, key=str), ids=lambda m: m.__name__)
def test_pages_open_and_machine_rows_are_not_edited(client: Client, model):
    olga = a_user("olga")
    project = a_project("vision", olga)
    a_node("n1")
    a_job(olga, project)
    base = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
    assert client.get(base).status_code == 200
    assert client.get(base, {"q": "1"}).status_code == 200
    for row in model.objects.all()[:1]:
        assert client.get(f"{base}{row.pk}/change/").status_code == 200
        assert client.post(f"{base}{row.pk}/delete/", {"post": "yes"}).status_code == 403
    edited = {get_user_model(), Project, Node, PlannerPolicy}
    assert client.get(f"{base}add/").status_code == (200 if model in edited else 403)


@pytest.mark.parametrize("staff", [False, True])
def test_only_platform_admins_get_in(staff: bool):
    client = Client()
    client.force_login(a_user("vera", is_staff=staff))
    assert client.get("/admin/jobs/job/").status_code == (403 if staff else 302)


def test_a_node_is_added_and_its_join_token_shown_once(client: Client):
    answer = client.post("/admin/inventory/node/add/", {"name": "n1"}, follow=True)
    found = re.search(r"one use: (\S+)", _messages(answer))
    assert found and JoinToken.objects.get().node.name == "n1"
    again = client.get("/admin/inventory/node/")
    assert found[1] not in again.content.decode()
    assert found[1] not in repr([*AuditEntry.objects.values(), *JoinToken.objects.values()])
    assert AuditEntry.objects.get().action == "node_add"


@pytest.mark.parametrize(
    ("action", "audited"), [("cordon", "node_cordon"), ("allow_mass_removal",) * 2]
)
def test_node_actions_call_services(client: Client, action: str, audited: str):
    node = a_node("n1").row
    body = {"action": action, "_selected_action": [str(node.pk)]}
    assert client.post("/admin/inventory/node/", body).status_code == 302
    assert AuditEntry.objects.get().action.endswith(audited)


def test_a_refusal_is_a_message(client: Client):
    node = a_node("n1").row
    body = {"action": "retire", "_selected_action": [str(node.pk)]}
    client.post("/admin/inventory/node/", body)
    answer = client.post("/admin/inventory/node/", body, follow=True)
    assert "is retired" in _messages(answer)


def test_jobs_are_cancelled_through_the_service(client: Client):
    olga = a_user("olga")
    a_node("n1")
    job = a_job(olga, a_project("vision", olga))
    body = {"action": "cancel", "_selected_action": [str(job.pk)]}
    client.post("/admin/jobs/job/", body)
    assert Job.objects.get().status == JobStatus.CANCELLED
    assert Event.objects.filter(new=JobStatus.CANCELLED).get().actor == "root"


def test_a_project_made_here_has_its_quota(client: Client):
    answer = client.post("/admin/accounts/project/add/", {"slug": "vision", "name": "Vision"})
    assert answer.status_code == 302
    assert Quota.objects.get().project.slug == "vision"
    assert AuditEntry.objects.get().action == "project_create"


def test_members_changed_here_are_audited(client: Client):
    project = a_project("vision")
    olga = a_user("olga")
    body = {
        "name": "Vision",
        **dict.fromkeys(("max_running", "max_pending"), "0"),
        **dict.fromkeys(("memberships-0-max_running", "memberships-0-max_pending"), "0"),
        **{"weight": "1", "memberships-0-weight": "2"},
        "memberships-TOTAL_FORMS": "1",
        "memberships-INITIAL_FORMS": "0",
        "memberships-0-user": str(olga.pk),
        "memberships-0-role": "admin",
        "memberships-0-project": str(project.pk),
    }
    answer = client.post(f"/admin/accounts/project/{project.pk}/change/", body)
    assert answer.status_code == 302
    assert Membership.objects.get().role == Role.ADMIN
    assert Membership.objects.get().weight == 2
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert actions == {"project_change", "membership_set", "membership_share"}


def test_the_policy_is_looser_in_the_console_only(client: Client):
    inside = client.get("/admin/")["Content-Security-Policy"]
    outside = client.get("/api/v1/jobs")["Content-Security-Policy"]
    assert "'unsafe-eval'" in inside and "'unsafe-inline'" in inside
    assert "unsafe" not in outside
    script = next(d for d in inside.split(";") if d.strip().startswith("script-src"))
    assert "unsafe-inline" not in script


def test_a_user_made_admin_here_is_audited_without_the_password(client: Client):
    body = {
        "username": "vera",
        "password1": "long-Enough-77",
        "password2": "long-Enough-77",
        "usable_password": "true",
    }
    assert client.post("/admin/accounts/user/add/", body).status_code == 302
    vera = get_user_model().objects.get(username="vera")
    page = f"/admin/accounts/user/{vera.pk}/change/"
    times = {"date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"}
    changed = {"username": "vera", "is_active": "on", "is_staff": "on", "is_superuser": "on"}
    assert client.post(page, changed | times).status_code == 302
    first, second = AuditEntry.objects.order_by("id")
    assert (first.action, second.action) == ("user_add", "user_change")
    assert second.after["superuser"] is True
    assert "long-Enough-77" not in repr([first.after, second.after])


def test_labels_and_taints_are_words_in_the_console(client: Client):
    row = a_node("n1").row
    page = f"/admin/inventory/node/{row.pk}/change/"
    client.post(page, {"label_words": "nvme zone=a", "taint_words": "new", "taint_reason_text": ""})
    row.refresh_from_db()
    assert (row.labels, row.taints) == (["nvme", "zone=a"], []), "a taint needs a reason"
    client.post(
        page, {"label_words": "nvme", "taint_words": "new", "taint_reason_text": "new cables"}
    )
    row.refresh_from_db()
    assert (row.labels, row.taints, row.taint_reason) == (["nvme"], ["new"], "new cables")
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert actions == ["node_label", "node_label", "node_taint"]


def test_the_policy_is_set_in_the_console_and_audited(client: Client):
    form = {
        "order": "fifo",
        "backfill": "easy",
        "preemption": "off",
        "quota_preemption": "project",
        "reservations": 2,
        "hysteresis": 2,
        "protection_seconds": 60,
        "patience_seconds": 60,
        "bypass_limit": 5,
        "moves": 0,
        "half_life_seconds": 3_600,
    }
    client.post("/admin/quotas/plannerpolicy/add/", form)
    now = current_policy()
    assert (str(now.order), now.merge, now.reservations) == ("fifo", False, 2)
    assert AuditEntry.objects.get().action == "policy_set"
    page = "/admin/quotas/plannerpolicy/1/change/"
    assert client.post(page, form | {"half_life_seconds": 0}).status_code == 200
    assert current_policy() == now
    assert client.get("/admin/quotas/plannerpolicy/add/").status_code == 403


def test_a_project_gets_its_share_in_the_console(client: Client):
    project = a_project("vision")
    form = {"name": "Vision", "weight": 3, "max_running": 2, "max_pending": 0}
    form |= {"approval_units": 56_000, "approval_seconds": ""}
    form |= {"memberships-TOTAL_FORMS": 0, "memberships-INITIAL_FORMS": 0}
    client.post(f"/admin/accounts/project/{project.pk}/change/", form)
    project.refresh_from_db()
    assert (project.weight, project.max_running, project.approval_units) == (3, 2, 56_000)
    assert AuditEntry.objects.filter(action="project_share").count() == 1


def test_a_policy_that_somebody_changed_meanwhile_is_not_overwritten(client: Client):
    policy_set(actor="olga", reservations=3)
    page = "/admin/quotas/plannerpolicy/1/change/"
    form = {name: getattr(current_policy(), name) for name in POLICY_OPTIONS}
    form = {name: value for name, value in form.items() if value is not False}
    policy_set(actor="olga", reservations=5)
    answer = client.post(page, form | {"reservations": 9, "read_version": 2})
    assert answer.status_code == 200
    assert "This changed since you opened it" in answer.content.decode()
    assert current_policy().reservations == 5
    assert client.post(page, form | {"reservations": 9, "read_version": 3}).status_code == 302
    assert current_policy().reservations == 9
