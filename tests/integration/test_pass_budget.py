"""A planning pass has a time budget: what it has decided and committed by then counts, and the next
pass, which is rung at once, does the rest."""

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.utils import timezone

from portal.accounts.models import Project, User
from portal.inventory.models import Node
from portal.jobs.models import Job
from portal.leases.models import TaskLease
from portal.leases.services import continuation_read
from portal.live import bell
from portal.planning.planner_input import planner_input
from scheduler import sweeper, tasks
from scheduler.commit import plan as commit_plan
from scheduler.commit.plan import commit
from scheduler.core.model.policy import Policy
from scheduler.core.model.states import JobStatus
from scheduler.core.plan import plan as decide
from scheduler.tasks import plan_once
from tests.support.many_jobs import many_jobs
from tests.support.rows import a_job, a_node, a_project, a_user
from tests.support.times import at_epoch

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def rings(monkeypatch):
    """Passes that were rung, without carrying them out."""
    rung = []
    monkeypatch.setattr(tasks, "ring_plan", lambda: rung.append("plan"))
    return rung


@pytest.fixture
def queue(monkeypatch):
    """Six jobs of one GPU that wait for the four GPUs of a node; no bell starts a pass. Each
    placement is a transaction of its own."""
    monkeypatch.setattr(commit_plan, "BATCH_SIZE", 1)
    monkeypatch.setattr(bell, "_send", lambda *task: None)
    alice = a_user("alice")
    vision = a_project("vision", alice, a_user("bob"), gpus=8)
    like = a_job(alice, vision, device={"gpus": 1})
    many_jobs(like, 5, reason=None)
    a_node("only", gpus=4)
    TaskLease.objects.get_or_create(name="plan")
    return Job.objects.queued().order_by("pk")


def test_a_commit_whose_time_is_up_stops_between_two_placements(queue, rings, monkeypatch):
    monkeypatch.setattr(tasks, "COMMIT_WITHIN_SECONDS", 0.0)
    placed = Job.objects.filter(status=JobStatus.PLACED)
    for passes in (1, 2, 3):
        plan_once()
        assert placed.count() == passes, "each pass commits at least one"
        assert rings == ["plan"] * passes
    plan_once()
    assert (placed.count(), len(rings)) == (4, 3), "the last one leaves nothing"


def test_reasons_are_written_even_by_a_commit_whose_time_is_up(queue, rings, monkeypatch):
    monkeypatch.setattr(tasks, "COMMIT_WITHIN_SECONDS", 0.0)
    plan_once()
    assert [bool(job.reason) for job in queue] == [False, False, False, True, True]


def test_a_pass_whose_time_is_up_is_continued_by_the_next_one(queue, rings, monkeypatch):
    """Each pass has time for one turn: four start, then each of the others gets its reason."""
    monkeypatch.setattr(tasks, "DECIDE_SECONDS", 0.0)
    considered = []
    for passes in range(1, 7):
        plan_once()
        considered.append(len((continuation_read("plan") or {"considered": []})["considered"]))
        assert queue.count() == max(2, 6 - passes)
        assert len(rings) == min(5, passes), "the last pass came to the end of the queue"
    assert considered == [0, 0, 0, 0, 1, 0]
    assert [(bool(job.reason), job.position) for job in queue] == [(True, 1), (True, 2)]
    plan_once()
    assert len(rings) == 6, "then it begins at the front again"


def test_a_commit_that_fails_does_not_hold_up_the_jobs_behind(queue, rings, monkeypatch):
    """The pass after it goes on behind the jobs that had their turn; what was to start, starts."""
    decided, real = [], tasks.commit

    def failing(plan, *arguments, **options):
        decided.append([each.job for each in (*plan.placements, *plan.deferrals)])
        raise SoftTimeLimitExceeded

    Node.objects.update(schedulable=False)
    monkeypatch.setattr(tasks, "DECIDE_SECONDS", 0.0)
    monkeypatch.setattr(tasks, "commit", failing)
    for _ in range(3):
        with pytest.raises(SoftTimeLimitExceeded):
            plan_once()
    assert len({job for each in decided for job in each}) == 3, "each pass reached another job"
    Node.objects.update(schedulable=True)
    monkeypatch.setattr(tasks, "commit", real)
    monkeypatch.setattr(tasks, "DECIDE_SECONDS", 60.0)
    plan_once()
    plan_once()
    assert queue.count() == 2


def test_a_pass_with_time_enough_rings_no_other(queue, rings):
    plan_once()
    assert Job.objects.filter(status=JobStatus.PLACED).count() == 4
    assert (rings, continuation_read("plan")) == ([], None)


def test_the_budgets_of_a_task_stay_below_its_soft_time_limit(settings):
    """A round may begin late, and read and write for some seconds besides."""
    spent = tasks.NEXT_ROUND_WITHIN_SECONDS + tasks.COMMIT_WITHIN_SECONDS
    assert spent <= 0.4 * settings.CELERY_TASK_SOFT_TIME_LIMIT
    assert tasks.DECIDE_SECONDS < tasks.COMMIT_WITHIN_SECONDS


@pytest.mark.parametrize(
    ("seconds", "pause", "swept"),
    [
        pytest.param(0.0, 0.0, [0, 1, 2, 3, 4], id="a long pass"),
        pytest.param(0.0, 60.0, [0], id="another sweep was completed a moment ago"),
        pytest.param(60.0, 0.0, [], id="a short pass leaves it to its own task"),
    ],
)
def test_a_long_pass_sweeps_between_its_placements(
    queue, rings, monkeypatch, seconds, pause, swept
):
    """A worker of one process would else do so once the pass is over."""
    placed, sweeps = Job.objects.filter(status=JobStatus.PLACED), []
    monkeypatch.setattr(sweeper, "sweep", lambda: sweeps.append(placed.count()))
    monkeypatch.setattr(tasks, "WITHOUT_SWEEP_SECONDS", seconds)
    monkeypatch.setattr(tasks, "PAUSE_BETWEEN_STEPS_SECONDS", pause)
    plan_once()
    assert (sweeps, placed.count()) == (swept, 4)


def test_many_short_steps_ask_seldom_whether_a_sweep_is_due(monkeypatch):
    asked = []
    monkeypatch.setattr(tasks, "WITHOUT_SWEEP_SECONDS", 0.0)
    monkeypatch.setattr(tasks, "PAUSE_BETWEEN_STEPS_SECONDS", 60.0)
    monkeypatch.setattr(tasks, "sweep_unless_recent", asked.append)
    between_steps = tasks.sweeps_between_steps()
    for _ in range(3):
        between_steps()
    assert asked == [60.0]


def test_what_a_commit_has_no_time_for_is_counted(queue):
    found = decide(planner_input(now=timezone.now(), policy=Policy()), Policy())
    calls = []

    def should_stop():
        calls.append(1)
        return len(calls) > 1

    result = commit(found, should_stop=should_stop)
    assert (result.placed, result.stale, result.remaining) == (2, 0, 2)


def test_owners_take_turns_in_a_commit_that_is_cut(queue, rings, monkeypatch):
    """Bob's only job stands behind all jobs of alice that find a place, in every pass."""
    monkeypatch.setattr(tasks, "COMMIT_WITHIN_SECONDS", 0.0)
    bob = User.objects.get(username="bob")
    later = a_job(bob, Project.objects.get(), device={"gpus": 1}, time_limit="2h")
    Job.objects.filter(owner__username="alice").update(queued_at=at_epoch(1_000_000))
    a_node("another", gpus=4)
    plan_once()
    assert Job.objects.get(pk=later.pk).status == JobStatus.QUEUED
    monkeypatch.setattr(tasks, "COMMIT_WITHIN_SECONDS", 60.0)
    order = []

    def commit_all(batch, _):
        order.extend(placement.job for placement in batch)
        return list(batch)

    monkeypatch.setattr(commit_plan, "placements_commit", commit_all)
    plan_once()
    assert order.index(str(later.pk)) == 1
    assert len(order) == 6
