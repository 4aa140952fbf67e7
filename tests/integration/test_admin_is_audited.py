"""Whatever the rows under /admin/ let somebody change goes into the history with their name: a way
to change something without a row here fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib import admin
from django.test import Client, RequestFactory
from django.urls import reverse

from portal.accounts.models import ApiToken, Project, User
from portal.audit.models import AuditEntry, Event
from portal.inventory.models import Gpu, Node
from portal.jobs.models import Job
from portal.quotas.budgets import budget_add
from portal.quotas.models import Budget, PlannerPolicy, Quota
from portal.quotas.policy import policy_set
from tests.support.rights import World, a_world
from tests.support.rows import a_job
from tests.support.times import ago, ahead

pytestmark = pytest.mark.django_db
# Looking, searching and reading what was done; deleting is asked of has_delete_permission.
LOOKS = {"changelist", "add", "history", "delete", "change"}
PASSWORDS = {"password1": "long-Enough-77", "password2": "long-Enough-77"}
POLICY = {
    **{"order": "fifo", "backfill": "easy", "preemption": "off", "reservations": 2},
    "quota_preemption": "project",
    **{"hysteresis": 2, "protection_seconds": 60, "patience_seconds": 60, "bypass_limit": 5},
    **{"moves": 0, "half_life_seconds": 3_600},
}
PROJECT = {
    **{"name": "Vision 2", "weight": 3, "max_running": 2, "max_pending": 0},
    **{"memberships-TOTAL_FORMS": 0, "memberships-INITIAL_FORMS": 0},
}
NODE = {"label_words": "nvme", "taint_words": "new", "taint_reason_text": "new cables"}
# (model, how): what is filled in. An action is posted to the list with the row chosen.
CHANGES: dict[tuple[str, str], dict[str, object]] = {
    ("accounts.User", "add"): {"username": "vic", "usable_password": "true", **PASSWORDS},
    ("accounts.User", "change"): {
        **{"username": "vera", "is_staff": "on"},
        **{"date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"},
    },
    ("accounts.User", "password"): {"set-password": "1", "usable_password": "true", **PASSWORDS},
    ("accounts.Project", "add"): {"slug": "audio", "name": "Audio"},
    ("accounts.Project", "change"): PROJECT,
    ("accounts.ApiToken", "revoke"): {},
    ("inventory.Node", "add"): {"name": "n9"},
    ("inventory.Node", "change"): NODE,
    ("inventory.Node", "cordon"): {},
    ("inventory.Node", "uncordon"): {},
    ("inventory.Node", "retire"): {},
    ("inventory.Node", "revoke"): {},
    ("inventory.Node", "unfreeze"): {},
    ("inventory.Node", "invite"): {},
    ("inventory.Node", "allow_mass_removal"): {},
    ("inventory.Gpu", "pin"): {},
    ("inventory.Gpu", "unpin"): {},
    ("jobs.Job", "cancel"): {},
    ("jobs.Job", "hold"): {},
    ("jobs.Job", "release"): {},
    ("jobs.Job", "approve"): {},
    ("jobs.Job", "refuse"): {},
    ("quotas.PlannerPolicy", "add"): POLICY,
    ("quotas.PlannerPolicy", "change"): POLICY,
}
# Actions that lead to a page of the console, which says what is lost and asks again.
CONFIRMED = {("inventory.Node", "revoke")}


def ways(model: type) -> set[str]:
    """How this model's rows can be changed by a platform admin."""
    rows = admin.site._registry[model]
    request = RequestFactory().get("/admin/")
    request.user = User(is_superuser=True, is_staff=True, is_active=True)
    allowed = {
        "add": rows.has_add_permission(request),
        "change": rows.has_change_permission(request),
        "delete": rows.has_delete_permission(request),
    }
    label = f"{model._meta.app_label}_{model._meta.model_name}_"
    names = {(url.name or "").removeprefix(label) for url in rows.get_urls() if url.name}
    others = {"password" if "password" in name else name for name in names - LOOKS}
    return {way for way, is_open in allowed.items() if is_open} | set(rows.actions or ()) | others


@pytest.fixture
def world() -> World:
    return a_world()


@pytest.fixture
def root(world) -> Client:
    return world.client("platform_admin")


def held(world: World) -> Job:
    """A job that an admin keeps from starting."""
    client = world.client("platform_admin")
    body = {"action": "hold", "_selected_action": [str(world.job.pk)]}
    client.post(reverse("admin:jobs_job_changelist"), body)
    return world.job


def job_for_approval(world: World) -> Job:
    """A job that waits for approval."""
    Project.objects.filter(pk=world.project.pk).update(approval_units=0)
    world.project.refresh_from_db()
    return a_job(world.people["member"], world.project)


def pinned(_: World) -> Gpu:
    Gpu.objects.update(pinned=True, pin_actor="root")
    return Gpu.objects.earliest("pk")


def policy(_: World) -> PlannerPolicy:
    policy_set(actor="olga", reservations=3)
    return PlannerPolicy.objects.get()


def idle(world: World) -> Node:
    Job.objects.all().delete()
    return world.node


def frozen(world: World) -> Node:
    Node.objects.update(frozen_at=ago())
    return world.node


ROWS: dict[tuple[str, str], Callable[[World], object]] = {
    ("jobs.Job", "release"): held,
    ("jobs.Job", "approve"): job_for_approval,
    ("jobs.Job", "refuse"): job_for_approval,
    ("inventory.Gpu", "unpin"): pinned,
    ("inventory.Node", "retire"): idle,
    ("inventory.Node", "unfreeze"): frozen,
    ("quotas.PlannerPolicy", "change"): policy,
}
ANY: dict[str, Callable[[World], object]] = {
    "accounts.User": lambda world: world.people["viewer"],
    "accounts.Project": lambda world: world.project,
    "accounts.ApiToken": lambda _: ApiToken.objects.earliest("pk"),
    "inventory.Node": lambda world: world.node,
    "inventory.Gpu": lambda _: Gpu.objects.earliest("pk"),
    "jobs.Job": lambda world: world.job,
}


def test_every_way_to_change_a_row_is_listed_here():
    found = {(model._meta.label, way) for model in admin.site._registry for way in ways(model)}
    assert found == set(CHANGES)


@pytest.mark.parametrize(("label", "way"), sorted(CHANGES), ids=str)
def test_what_is_changed_has_a_line_with_who_did_it(world, root, label, way):
    body = dict(CHANGES[label, way])
    row = None if way == "add" else ROWS.get((label, way), ANY.get(label))(world)
    lines, events = AuditEntry.objects.filter(actor="root"), Event.objects.filter(actor="root")
    before = lines.count() + events.count()
    base = f"admin:{label.replace('.', '_').lower()}"
    if way == "add":
        answer = root.post(reverse(f"{base}_add"), body)
    elif way == "change":
        answer = root.post(reverse(f"{base}_change", args=[row.pk]), body)
    elif way == "password":
        answer = root.post(reverse("admin:auth_user_password_change", args=[row.pk]), body)
    else:
        chosen = {"action": way, "_selected_action": [str(row.pk)]}
        answer = root.post(reverse(f"{base}_changelist"), chosen)
    if (label, way) in CONFIRMED:
        answer = root.post(answer.headers["Location"])
    assert answer.status_code == 302, answer.content.decode()[-3_000:]
    assert lines.count() + events.count() > before
    told = repr(list(lines.values("before", "after")))
    assert PASSWORDS["password1"] not in told


def test_a_password_that_was_refused_leaves_no_line(world, root):
    page = reverse("admin:auth_user_password_change", args=[world.people["viewer"].pk])
    wrong = {"set-password": "1", "usable_password": "true", "password1": "a", "password2": "b"}
    assert root.post(page, wrong).status_code == 200
    assert not AuditEntry.objects.filter(action="password_set").exists()


def test_a_limit_is_only_read_and_leads_to_the_page_that_shows_its_effect(world, root):
    quota = Quota.objects.get(user=world.people["member"])
    page = reverse("admin:quotas_quota_change", args=[quota.pk])
    assert root.post(page, {"limit_units": "1"}).status_code == 403
    leads_to = "/projects/vision/quota?user=olga"
    for shown in (page, reverse("admin:quotas_quota_changelist")):
        assert f'href="{leads_to}"' in root.get(shown).content.decode()
    assert root.get(leads_to).status_code == 200


def test_a_budget_is_only_read_and_leads_to_its_project(world, root):
    budget_add(
        project=world.project,
        limit_unit_seconds=7,
        starts_at=ago(hours=1),
        ends_at=ahead(hours=1),
        actor="root",
    )
    row = Budget.objects.get()
    page = reverse("admin:quotas_budget_change", args=[row.pk])
    assert 'href="/projects/vision/"' in root.get(page).content.decode()
    gone = reverse("admin:quotas_budget_delete", args=[row.pk])
    assert root.post(gone, {"post": "yes"}).status_code == 403
    assert Budget.objects.exists()
