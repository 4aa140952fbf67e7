"""Projects, memberships, quotas and nodes through their services and REST, with audit lines."""

from __future__ import annotations

import hashlib
from datetime import timedelta

import pytest
from django.conf import settings
from django.core.cache import cache
from django.db import IntegrityError
from django.utils import timezone
from rest_framework.test import APIClient

from portal.accounts.models import Membership, Project, Role
from portal.accounts.services import membership_remove, membership_set
from portal.allocations.holding import node_allow_mass_removal
from portal.allocations.models import Allocation
from portal.allocations.retirement import node_retire
from portal.audit import services as audit_services
from portal.audit.models import AuditEntry, Event
from portal.errors import Refused
from portal.inventory.models import JoinToken, Node, Slice
from portal.inventory.services import (
    node_add,
    node_cordon,
    node_invite,
    node_uncordon,
)
from portal.jobs.models import Attempt, Replica
from portal.quotas.models import Quota
from portal.quotas.projects import project_create
from portal.quotas.services import quota_set
from scheduler.core.model.states import NodeStatus, ReplicaStatus
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db


def _last_audit() -> tuple[str, str, str]:
    row = AuditEntry.objects.order_by("-id")[0]
    return row.actor, row.action, row.noun_id


def _client(user) -> APIClient:
    cache.clear()
    client = APIClient()
    client.force_login(user)
    return client


def _held(project: Project, *, units: int = 16_000) -> Replica:
    """A replica that holds a slice of a fresh node."""
    node = a_node().row
    job = a_job(project.members.get(), project)
    attempt = Attempt.objects.create(job=job, number=1, created_at=timezone.now())
    replica = Replica.objects.create(attempt=attempt, rank=0, node=node)
    piece = Slice.objects.create(
        gpu=node.gpus.get(), kind="mig", profile="2g.35gb", size=2, memory_mib=1, units=units
    )
    Allocation.objects.create(
        replica=replica,
        slice=piece,
        project=project,
        user=job.owner,
        units=units,
        status="bound",
        reserved_at=timezone.now(),
    )
    Quota.objects.filter(project=project).update(used_units=units)
    return replica


def test_a_project_comes_with_its_quota_and_audit_line():
    project = project_create(slug="vision", name="Vision", actor="root")
    quota = Quota.objects.get(project=project, user=None)
    default = settings.PLATFORM.default_quota_units
    assert (quota.limit_units, quota.guard_units, quota.used_units) == (default, default, 0)
    assert _last_audit() == ("root", "project_create", "vision")


@pytest.mark.parametrize("slug", ["", "Vision", "a b", "-x", "x" * 41, "é", "x\n"])
def test_a_bad_slug_is_refused(slug):
    with pytest.raises(Refused) as refused:
        project_create(slug=slug, actor="root")
    assert (refused.value.code, refused.value.field) == ("slug_invalid", "slug")
    assert not Project.objects.exists()


def test_a_slug_is_taken_once():
    project_create(slug="vision", actor="root")
    with pytest.raises(Refused) as refused:
        project_create(slug="vision", actor="root")
    assert (refused.value.code, refused.value.status) == ("slug_taken", 409)
    assert AuditEntry.objects.count() == 1


def test_the_last_admin_stays():
    olga, vera = a_user("olga"), a_user("vera")
    project = a_project("vision", olga, role=Role.ADMIN)
    for change in (
        lambda: membership_set(project=project, user=olga, role=Role.VIEWER, actor="root"),
        lambda: membership_remove(project=project, user=olga, actor="root"),
    ):
        with pytest.raises(Refused, match="last_admin"):
            change()
    membership_set(project=project, user=vera, role=Role.ADMIN, actor="root")
    membership_remove(project=project, user=olga, actor="root")
    assert _last_audit() == ("root", "membership_remove", "vision")
    assert list(project.members.all()) == [vera]


def test_a_project_admin_runs_the_members_over_rest():
    olga, vera = a_user("olga"), a_user("vera")
    project = a_project("vision", olga, role=Role.ADMIN)
    client = _client(olga)
    url = "/api/v1/projects/vision/members/vera"
    answer = client.put(url, {"role": "viewer"}, format="json")
    assert (answer.status_code, answer.json()) == (200, {"user": "vera", "role": "viewer"})
    assert client.put(url, {"role": "king"}, format="json").json()["errors"][0]["field"] == "role"
    assert client.delete(url).status_code == 204
    assert client.delete(url).status_code == 404
    assert not Membership.objects.filter(project=project, user=vera).exists()


def test_without_its_audit_line_nothing_changes(monkeypatch):
    def broken(**_: object) -> None:
        raise IntegrityError("no audit today")

    project = a_project("vision", a_user("olga"))
    monkeypatch.setattr(audit_services.AuditEntry.objects, "create", broken)
    with pytest.raises(IntegrityError):
        quota_set(project=project, limit_units=1, actor="root")
    assert Quota.objects.get(project=project).limit_units == 8 * 56_000
    with pytest.raises(IntegrityError):
        node_cordon(node=a_node("n1").row, reason="x", actor="root")
    assert Node.objects.get(name="n1").schedulable


def test_a_lowered_limit_lets_held_work_go_on():
    project = a_project("vision", a_user("olga"))
    _held(project, units=16_000)
    quota = quota_set(project=project, limit_units=8_000, actor="root")
    assert (quota.limit_units, quota.guard_units, quota.used_units) == (8_000, 16_000, 16_000)
    assert quota.version == 2
    assert AuditEntry.objects.get(action="quota_set").before == {"limit_units": 448_000}


def test_a_new_user_quota_starts_with_what_is_held():
    olga = a_user("olga")
    project = a_project("vision", olga)
    _held(project, units=16_000)
    quota = quota_set(project=project, user=olga, limit_units=8_000, actor="root", version=0)
    assert (quota.used_units, quota.guard_units, quota.version) == (16_000, 16_000, 1)


@pytest.mark.parametrize(
    ("limit", "code"), [(-1, "limit_invalid"), (448_001, "over_project_limit")]
)
def test_limits_that_make_no_sense(limit, code):
    olga = a_user("olga")
    project = a_project("vision", olga)
    with pytest.raises(Refused, match=code):
        quota_set(project=project, user=olga, limit_units=limit, actor="root")
    assert Quota.objects.count() == 1


def test_a_quota_changes_only_from_the_version_that_was_read():
    a_project("vision")
    client = _client(a_user("root", is_superuser=True))
    url = "/api/v1/quotas/vision"
    etag = client.get(url)["ETag"]
    body = {"limit_units": 56_000}
    assert client.put(url, body, format="json").status_code == 428
    new = client.put(url, body, format="json", headers={"If-Match": etag})
    assert (new.status_code, new.json()["limit_units"]) == (200, 56_000)
    assert new["ETag"] != etag
    stale = client.put(url, {"limit_units": 1}, format="json", headers={"If-Match": etag})
    assert (stale.status_code, stale.json()["code"]) == (412, "version_stale")
    assert Quota.objects.get().limit_units == 56_000


def test_a_project_admin_sets_user_limits_only():
    olga = a_user("olga")
    a_project("vision", olga, role=Role.ADMIN)
    client = _client(olga)
    body, new = {"limit_units": 56_000}, {"If-None-Match": "*"}
    mine = client.put("/api/v1/quotas/vision/olga", body, format="json", headers=new)
    assert (mine.status_code, mine.json()["user"]) == (200, "olga")
    again = client.put("/api/v1/quotas/vision/olga", body, format="json", headers=new)
    assert again.status_code == 412
    whole = client.put("/api/v1/quotas/vision", body, format="json", headers={"If-Match": '"1"'})
    assert whole.status_code == 403
    rows = client.get("/api/v1/quotas").json()["results"]
    assert [row["user"] for row in rows] == [None, "olga"]


def test_a_join_token_is_shown_once_and_only_its_digest_is_kept():
    node, token = node_add(name="n1", actor="root")
    row = JoinToken.objects.get(node=node)
    assert row.digest == hashlib.sha256(token.encode()).hexdigest()
    assert token not in repr([*AuditEntry.objects.values(), *Event.objects.values()])
    lives = row.expires_at - timezone.now()
    assert timedelta(0) < lives <= timedelta(seconds=settings.PLATFORM.join_token_seconds)
    again = node_invite(node=node, actor="root")
    assert again != token
    assert JoinToken.objects.filter(used_at=None).count() == 1


@pytest.mark.parametrize("name", ["", "N1", "a b", "x" * 65, "../n"])
def test_a_bad_node_name_is_refused(name):
    with pytest.raises(Refused, match="name_invalid"):
        node_add(name=name, actor="root")
    assert not Node.objects.exists()


def test_a_node_name_is_taken_once():
    node_add(name="n1", actor="root")
    with pytest.raises(Refused, match="name_taken"):
        node_add(name="n1", actor="root")
    assert JoinToken.objects.count() == 1


def test_cordon_says_who_and_why_and_uncordon_takes_it_back():
    node = a_node("n1").row
    node_cordon(node=node, reason=" new fan ", actor="root")
    node.refresh_from_db()
    assert (node.schedulable, node.cordon_reason, node.cordon_actor) == (False, "new fan", "root")
    node_uncordon(node=node, actor="root")
    node.refresh_from_db()
    assert (node.schedulable, node.cordon_reason, node.cordon_actor) == (True, "", "")
    assert list(node.events.values_list("code", flat=True)) == ["node_cordon", "node_uncordon"]
    with pytest.raises(Refused, match="reason_missing"):
        node_cordon(node=node, reason="  ", actor="root")


def test_a_node_is_retired_only_when_nothing_runs_there():
    project = a_project("vision", a_user("olga"))
    replica = _held(project)
    node = replica.node
    with pytest.raises(Refused, match="node_busy"):
        node_retire(node=node, actor="root")
    Replica.objects.update(status=ReplicaStatus.LOST)
    with pytest.raises(Refused, match="node_busy"):
        node_retire(node=node, actor="root")
    Node.objects.update(status=NodeStatus.LOST)
    node_retire(node=node, actor="root")
    node.refresh_from_db()
    assert (node.status, node.public_key) == (NodeStatus.RETIRED, "")
    assert Allocation.objects.get().status == "releasing"
    with pytest.raises(Refused, match="node_retired"):
        node_uncordon(node=node, actor="root")


def test_mass_removal_is_allowed_by_name():
    node = a_node("n1").row
    node_allow_mass_removal(node=node, actor="root")
    node.refresh_from_db()
    assert node.allow_mass_removal
    assert _last_audit() == ("root", "node_allow_mass_removal", "n1")
