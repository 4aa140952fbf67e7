"""When a job may start: its begin, the jobs before it, holds, approvals, caps of waiting jobs."""

import pytest

from portal.accounts.models import Role
from portal.accounts.services import membership_share_set, project_share_set
from portal.audit.models import AuditEntry
from portal.errors import Refused
from portal.inventory.models import Node
from portal.jobs.holds import job_approve, job_hold, job_refuse, job_release
from portal.jobs.models import Job
from portal.jobs.services import job_cancel
from portal.planning.planner_input import planner_input
from scheduler import sweeper
from scheduler.commit.plan import commit
from scheduler.core.model.policy import Policy
from scheduler.core.model.states import JobStatus
from scheduler.core.plan import plan
from tests.support.rows import a_job, a_node, a_project, a_user, settle
from tests.support.times import ago

pytestmark = pytest.mark.django_db(transaction=True)


def status_of(job):
    job.refresh_from_db()
    return job.status


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice)


def test_a_job_starts_when_its_begin_has_come(alice, vision):
    node = a_node()
    job = a_job(alice, vision, begin_at="+2h")
    settle(node)
    assert status_of(job) == JobStatus.QUEUED
    left = (job.begin_at - ago()).total_seconds()
    assert 7_000 < left <= 7_200
    (seen,) = planner_input(now=ago(), policy=Policy()).jobs
    assert seen.begin_at >= job.begin_at.timestamp()
    Job.objects.filter(pk=job.pk).update(begin_at=ago(seconds=1))
    sweeper.sweep()
    settle(node)
    assert status_of(job) == JobStatus.RUNNING


def test_a_job_starts_after_those_before_it_have_succeeded(alice, vision):
    node = a_node()
    first = a_job(alice, vision)
    settle(node)
    second = a_job(alice, vision, after=[first.label])
    settle(node)
    assert (status_of(first), status_of(second)) == (JobStatus.RUNNING, JobStatus.QUEUED)
    (seen,) = planner_input(now=ago(), policy=Policy()).jobs
    assert seen.after == (str(first.pk),)
    node.finish()
    settle(node)
    assert status_of(second) == JobStatus.RUNNING


def test_what_is_to_run_after_a_failed_job_fails_and_says_so_all_along_the_chain(alice, vision):
    node = a_node()
    first = a_job(alice, vision)
    settle(node)
    second = a_job(alice, vision, after=[first.label])
    third = a_job(alice, vision, after=[second.label])
    node.finish(exit_code=1)
    settle(node)
    sweeper.sweep()
    assert status_of(first) == JobStatus.FAILED
    for job, before in ((second, first), (third, second)):
        assert (status_of(job), job.stop_reason) == (JobStatus.FAILED, "dependency")
        said = job.events.filter(new="failed").get().sentence
        assert said == f"{before.label}, which had to succeed first, ended as failed"
        assert not job.attempts.exists()


def test_a_job_that_is_after_any_end_starts_when_the_other_has_failed(alice, vision):
    node = a_node()
    first = a_job(alice, vision)
    settle(node)
    second = a_job(alice, vision, after=[f"{first.label}:ended"])
    third = a_job(alice, vision, after=[f"{first.label}:ended", first.label])
    assert second.request["after"] == [f"{first.label}:ended"]
    assert third.request["after"] == [first.label]
    settle(node)
    assert status_of(second) == JobStatus.QUEUED
    node.finish(exit_code=1)
    settle(node)
    sweeper.sweep()
    settle(node)
    assert (status_of(second), status_of(third)) == (JobStatus.RUNNING, JobStatus.FAILED)
    again = a_job(alice, vision, after=[f"{first.label}:ended"])
    settle(node)
    assert status_of(again) == JobStatus.RUNNING


def test_a_cancelled_job_ends_what_was_to_run_after_it(alice, vision):
    first = a_job(alice, vision)
    second = a_job(alice, vision, after=[first.label])
    job_cancel(job=first, actor="alice")
    sweeper.sweep()
    assert status_of(second) == JobStatus.FAILED


def test_only_jobs_of_the_project_that_may_still_succeed_can_stand_before_another(alice, vision):
    bob = a_user("bob")
    foreign = a_job(bob, a_project("speech", bob))
    ended = a_job(alice, vision)
    job_cancel(job=ended, actor="alice")
    for label, code in (
        (foreign.label, "after_unknown"),
        ("J-999999", "after_unknown"),
        (ended.label, "after_failed"),
    ):
        with pytest.raises(Refused) as refused:
            a_job(alice, vision, after=[label])
        assert (refused.value.code, refused.value.field) == (code, "after")
    assert Job.objects.filter(project=vision).count() == 1


def test_a_held_job_waits_until_it_is_released(alice, vision):
    job = a_job(alice, vision, begin_at="+1h")
    job_hold(job=job, actor=alice, reason="the data is not there yet")
    Job.objects.update(begin_at=None)
    node = a_node()
    settle(node)
    assert status_of(job) == JobStatus.QUEUED
    (seen,) = planner_input(now=ago(), policy=Policy()).jobs
    job.refresh_from_db()
    assert job.reason["code"] == "held"
    assert seen.hold_reason == "the data is not there yet (alice)"
    job_release(job=job, actor=alice)
    settle(node)
    assert status_of(job) == JobStatus.RUNNING
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert actions[-2:] == ["job_hold", "job_release"]


def test_a_job_that_is_held_between_its_plan_and_the_commit_does_not_start(alice, vision):
    node = a_node()
    Node.objects.update(schedulable=False)
    job = a_job(alice, vision)
    Node.objects.update(schedulable=True)
    snapshot = planner_input(now=ago(), policy=Policy())
    found = plan(snapshot, Policy())
    assert [placement.job for placement in found.placements] == [str(job.pk)]
    job_hold(job=job, actor=alice, reason="the data is not there yet")
    assert commit(found).placed == 0
    assert status_of(job) == JobStatus.QUEUED
    assert not job.attempts.exists()
    job_release(job=job, actor=alice)
    settle(node)
    assert status_of(job) == JobStatus.RUNNING


def test_what_an_admin_holds_its_owner_cannot_release_and_strangers_cannot_hold(alice, vision):
    ada, bob = a_user("ada"), a_user("bob")
    vision.memberships.create(user=ada, role=Role.ADMIN)
    vision.memberships.create(user=bob, role=Role.MEMBER)
    job = a_job(alice, vision)
    job_hold(job=job, actor=ada, reason="maintenance")
    with pytest.raises(Refused, match="Held by ada"):
        job_release(job=job, actor=alice)
    for wrong in (
        lambda: job_hold(job=job, actor=bob, reason="mine first"),
        lambda: job_release(job=job, actor=bob),
    ):
        with pytest.raises(Refused, match="forbidden"):
            wrong()
    with pytest.raises(Refused, match="reason_missing"):
        job_hold(job=job, actor=ada, reason=" ")


@pytest.mark.parametrize(
    ("share", "large"),
    [
        ({"approval_units": 16_000}, {"device": {"gpus": 1}}),
        ({"approval_seconds": 3_600}, {"time_limit": "2h"}),
    ],
    ids=["many units", "a long time"],
)
def test_what_is_above_a_threshold_waits_for_an_admin(alice, vision, share, large):
    ada = a_user("ada")
    vision.memberships.create(user=ada, role=Role.ADMIN)
    project_share_set(project=vision, actor="admin", **share)
    node = a_node(gpus=2)
    small, job = a_job(alice, vision), a_job(alice, vision, **large)
    settle(node)
    assert status_of(small) == JobStatus.RUNNING
    assert status_of(job) == JobStatus.AWAITING_APPROVAL
    assert job.reason["code"] == "approval"
    assert job.reason["class"] == "ask"
    with pytest.raises(Refused, match="forbidden"):
        job_approve(job=job, actor=alice)
    job_approve(job=job, actor=ada)
    settle(node)
    assert status_of(job) == JobStatus.RUNNING
    assert job.reason is None
    with pytest.raises(Refused, match="not_awaiting"):
        job_refuse(job=job, actor=ada, reason="too late")
    assert AuditEntry.objects.filter(action="job_approve", noun_id=job.label).exists()


def test_a_refused_job_ends_with_the_words_of_who_refused_it(alice, vision):
    root = a_user("root", is_superuser=True)
    project_share_set(project=vision, actor="admin", approval_units=0)
    job = a_job(alice, vision)
    job_refuse(job=job, actor=root, reason="not this week")
    assert (status_of(job), job.stop_reason) == (JobStatus.CANCELLED, "refused")
    assert job.events.get(new="cancelled").sentence == "refused by root: not this week"


def test_a_user_may_have_only_so_many_jobs_waiting(alice, vision):
    membership_share_set(project=vision, user=alice, actor="admin", max_pending=2)
    first, _ = a_job(alice, vision), a_job(alice, vision)
    with pytest.raises(Refused, match="You have 2 jobs waiting in vision") as refused:
        a_job(alice, vision)
    assert (refused.value.code, refused.value.status) == ("pending_limit", 409)
    job_cancel(job=first, actor="alice")
    a_job(alice, vision)


def test_a_project_may_have_only_so_many_jobs_waiting(alice, vision):
    bob = a_user("bob")
    vision.memberships.create(user=bob, role=Role.MEMBER)
    project_share_set(project=vision, actor="admin", max_pending=1)
    a_job(alice, vision)
    with pytest.raises(Refused, match="vision has 1 jobs waiting"):
        a_job(bob, vision)


@pytest.mark.parametrize(
    "share", [{"weight": 0}, {"max_running": -1}, {"max_pending": True}, {"name": 3}]
)
def test_a_share_that_makes_no_sense_is_refused(alice, vision, share):
    with pytest.raises(Refused, match="share_invalid"):
        project_share_set(project=vision, actor="admin", **share)
    with pytest.raises(Refused, match="share_invalid"):
        membership_share_set(project=vision, user=alice, actor="admin", **share)
