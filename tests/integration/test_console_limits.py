"""Limits: what a change would do is shown first, saved second, and kept in the history."""

from dataclasses import replace

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.contract.documents import ReplicaState
from agents.contract.units import UNITS_PER_GPU
from portal.accounts.models import Membership, Role
from portal.audit.models import AuditEntry
from portal.jobs.models import Job
from portal.planning.quota_effect import budget_effect, quota_effect
from portal.quotas.budgets import budget_add
from portal.quotas.models import Budget, Quota
from portal.quotas.services import quota_set, quotas_take
from portal.web.console.amounts import GPU, format_amount, parse_amount
from tests.support.rows import a_job, a_node, a_project, a_user, settle
from tests.support.times import ago, ahead

pytestmark = pytest.mark.django_db
HOUR = UNITS_PER_GPU * 3_600


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice, gpus=4)


@pytest.fixture
def root() -> Client:
    return as_(a_user("root", is_superuser=True, is_staff=True))


@pytest.fixture
def ada(vision):
    ada = a_user("ada")
    Membership.objects.create(project=vision, user=ada, role=Role.ADMIN)
    return ada


def as_(user) -> Client:
    client = Client()
    client.force_login(user)
    return client


def quota_of(project) -> Quota:
    return Quota.objects.get(project=project, user=None, model="")


def test_who_would_be_over_is_named_before_anything_is_saved(alice, vision, root):
    node = a_node(gpus=3)
    jobs = [a_job(alice, vision, name=f"run{i}", device={"gpus": 1}) for i in range(3)]
    settle(node)
    body = {"limit": "1", "borrow": "0", "lend": "0", "version": "1", "step": "preview"}
    page = root.post("/projects/vision/quota", body).content.decode()
    assert "The new limit is exceeded by 2 GPUs" in page
    named = [job.label for job in jobs if f"{job.label} {job.name}" in page]
    assert len(named) == 2
    assert "runs to its end, over the limit" in page
    assert quota_of(vision).limit_units == 4 * GPU
    assert not AuditEntry.objects.exists()


def test_a_waiting_job_that_could_never_run_again_is_named(alice, vision):
    a_node(gpus=2)
    large = a_job(alice, vision, device={"gpus": 2})
    small = a_job(alice, vision, device={"gpus": 1})
    effect = quota_effect(project=vision, limit_units=GPU)
    assert [(one.job, one.needed_amount) for one in effect.blocked] == [(large, 2 * GPU)]
    assert small not in {one.job for one in effect.blocked}
    assert quota_effect(project=vision, limit_units=2 * GPU).is_harmless


def test_borrowed_work_that_may_be_stopped_is_told_apart(alice, vision):
    node = a_node(gpus=2)
    a_job(alice, vision, device={"gpus": 1})
    settle(node)
    a_job(alice, vision, device={"gpus": 1}, priority="low", preemptible=True)
    settle(node)
    effect = quota_effect(project=vision, limit_units=GPU, borrow_units=GPU)
    (one,) = effect.over_limit
    assert one.is_reclaimed and not one.is_over
    assert effect.excess == 0


def test_a_limit_is_saved_through_the_service_and_stands_in_the_history(vision, root):
    body = {"limit": "2/7", "borrow": "1", "lend": "0.5", "version": "1", "step": "save"}
    assert root.post("/projects/vision/quota", body).status_code == 302
    row = quota_of(vision)
    assert (row.limit_units, row.borrow_units, row.lend_units) == (16_000, GPU, GPU // 2)
    line = AuditEntry.objects.get(action="quota_set")
    assert (line.actor, line.before["limit_units"]) == ("root", 4 * GPU)
    page = root.get("/projects/vision/").content.decode()
    assert "4 GPU →" in page and "0.29 GPU" in page and "root" in page


def test_the_guard_of_a_lowered_limit_falls_as_the_work_above_it_ends(alice, vision):
    """Until then the database has to allow what is in use; afterwards the new limit alone."""
    node = a_node(gpus=3)
    for index in range(3):
        a_job(alice, vision, name=f"run{index}", device={"gpus": 1})
    settle(node)
    quota_set(project=vision, limit_units=GPU, borrow_units=GPU, actor="root")
    assert (quota_of(vision).used_units, quota_of(vision).guard_units) == (3 * GPU, 3 * GPU)
    first, *_ = node.replicas
    ended = replace(node.replicas[first], state=ReplicaState.EXITED, exit_code=0)
    node.replicas[first] = ended
    node.report()
    settle(node)
    assert (quota_of(vision).used_units, quota_of(vision).guard_units) == (2 * GPU, 2 * GPU)
    node.finish()
    settle(node)
    assert (quota_of(vision).used_units, quota_of(vision).guard_units) == (0, 2 * GPU)
    with pytest.raises(IntegrityError), transaction.atomic():
        quotas_take({quota_of(vision).pk: 2 * GPU + 1})


def test_a_stale_edit_shows_both_versions_and_saves_nothing(vision, root):
    quota_set(project=vision, limit_units=3 * GPU, actor="olga")
    body = {"limit": "2", "borrow": "0", "lend": "0", "version": "1", "step": "save"}
    answer = root.post("/projects/vision/quota", body)
    assert answer.status_code == 412
    page = answer.content.decode()
    assert "This has changed since you opened it" in page
    assert "<td>2 GPU</td><td>3 GPU</td>" in page and "olga" in page
    assert 'name="version" value="2"' in page, "saving again is against what was shown"
    assert quota_of(vision).limit_units == 3 * GPU
    assert root.post("/projects/vision/quota", body | {"version": "2"}).status_code == 302
    assert quota_of(vision).limit_units == 2 * GPU


@pytest.mark.parametrize("typed", ["", "many", "-1", "1e9", "0.0000001", "1/3000001", "99999999"])
def test_what_cannot_be_a_limit_is_kept_and_explained(vision, root, typed):
    body = {"limit": typed, "borrow": "0", "lend": "0", "version": "1", "step": "save"}
    answer = root.post("/projects/vision/quota", body)
    assert answer.status_code == 400
    assert 'id="limit-error"' in answer.content.decode()
    assert f'value="{typed}"' in answer.content.decode()
    assert quota_of(vision).version == 1


@pytest.mark.parametrize("units", [0, 1, 16_000, 28_000, 56_000, 56_056, 5_600_000_000])
def test_an_amount_is_read_as_it_was_written(units):
    assert parse_amount(format_amount(units, GPU), GPU) == units


def test_a_project_admin_limits_a_member_but_not_the_project(alice, vision, ada):
    client = as_(ada)
    body = {"user": "alice", "limit": "1", "version": "0", "step": "save"}
    assert client.post("/projects/vision/quota", body).status_code == 302
    row = Quota.objects.get(user=alice)
    assert row.limit_units == GPU
    assert AuditEntry.objects.get().actor == "ada"
    body = {"user": "", "limit": "9", "version": "1", "step": "save"}
    assert client.post("/projects/vision/quota", body).status_code == 404
    body = {"user": "alice", "limit": "99", "version": "1", "step": "save"}
    answer = client.post("/projects/vision/quota", body)
    assert answer.status_code == 400 and "own limit is" in answer.content.decode()


def test_a_member_changes_no_limit_and_a_stranger_sees_no_project(alice, vision):
    assert as_(alice).get("/projects/vision/quota").status_code == 404
    assert as_(alice).get("/projects/vision/").status_code == 200
    assert as_(a_user("eve")).get("/projects/vision/").status_code == 404
    assert as_(alice).get("/console/limits/").status_code == 404


def test_a_budget_shows_what_it_could_never_pay_before_it_counts(alice, vision, root):
    a_node(gpus=2)
    job = a_job(alice, vision, device={"gpus": 2}, time_limit="10h")
    body = {
        "hours": "5",
        "user": "",
        "starts_at": "2026-01-01T00:00",
        "ends_at": "2099-01-01T00:00",
    }
    page = root.post("/projects/vision/budget", body | {"step": "preview"}).content.decode()
    assert "1 waiting job could never run" in page
    assert f"{job.label} {job.name}" in page and "may use 20 GPU-hours" in page
    assert not Budget.objects.exists()
    assert root.post("/projects/vision/budget", body | {"step": "save"}).status_code == 302
    assert Budget.objects.get().limit_unit_seconds == 5 * HOUR
    assert AuditEntry.objects.get().action == "budget_add"


def test_a_later_budget_touches_nothing_that_waits_now(alice, vision):
    a_node()
    a_job(alice, vision)
    start, end = ahead(days=1), ahead(days=2)
    effect = budget_effect(project=vision, limit_unit_seconds=0, starts_at=start, ends_at=end)
    assert effect.is_harmless


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"hours": "x"}, "hours"),
        ({"ends_at": "2020-01-01T00:00"}, "ends_at"),
        ({"user": "no"}, "user"),
    ],
    ids=["hours", "ends before", "nobody"],
)
def test_a_budget_that_makes_no_sense_is_kept_and_explained(vision, root, wrong, field):
    body = {
        "hours": "5",
        "user": "",
        "starts_at": "2026-01-01T00:00",
        "ends_at": "2026-02-01T00:00",
    }
    answer = root.post("/projects/vision/budget", body | wrong | {"step": "save"})
    assert answer.status_code == 400
    assert f'id="{field}-error"' in answer.content.decode()
    assert not Budget.objects.exists()


def test_a_budget_is_taken_away_by_platform_admins_only(vision, ada, root):
    row = budget_add(
        project=vision,
        limit_unit_seconds=HOUR,
        starts_at=ago(hours=1),
        ends_at=ahead(hours=1),
        actor="root",
    )
    page = f"/projects/vision/budget/{row.pk}/remove"
    assert as_(ada).post(page).status_code == 404
    assert root.get(page).status_code == 405
    assert root.post(page).status_code == 302
    assert not Budget.objects.exists()
    assert AuditEntry.objects.filter(action="budget_remove").exists()


def test_limits_of_all_projects_stand_on_one_page(vision, root):
    a_project("bio", gpus=1)
    page = root.get("/console/limits/").content.decode()
    assert "vision" in page and "bio" in page
    assert "No budget is nearly used up" in root.get("/console/limits/?near=1").content.decode()


def test_a_user_limit_of_nobody_is_refused_beside_its_field(vision, root):
    body = {"user": "nobody", "limit": "1", "version": "0", "step": "save"}
    answer = root.post("/projects/vision/quota", body)
    assert answer.status_code == 400
    assert "No such user" in answer.content.decode()
    assert not Job.objects.exists()


def test_many_budgets_are_read_as_quickly_as_one(vision, root):
    given = {"project": vision, "limit_unit_seconds": HOUR, "actor": "root"}
    budget_add(**given, starts_at=ago(hours=1), ends_at=ahead(hours=1))
    root.get("/console/limits/")
    with CaptureQueriesContext(connection) as one:
        root.get("/console/limits/")
        cost = len(one)
    for hours in range(2, 12):
        budget_add(**given, starts_at=ago(hours=hours), ends_at=ahead(hours=1))
    with CaptureQueriesContext(connection) as many:
        root.get("/console/limits/")
        assert len(many) == cost


def test_a_budget_that_is_over_tells_no_use_it_did_not_count(alice, vision, root):
    node = a_node()
    a_job(alice, vision, device={"gpus": 1})
    settle(node)
    given = {"project": vision, "limit_unit_seconds": HOUR, "actor": "root"}
    budget_add(**given, starts_at=ago(days=9), ends_at=ago(days=8))
    (one,) = root.get("/projects/vision/").context["budgets"]
    assert (one.is_current, one.used, one.reserved, one.is_nearly_spent) == (False, 0, 0, False)
