"""What waiting jobs are told: what would start now, when they will start, and what came true."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from agents.contract.message import verbatim
from portal.jobs.models import Job, StartEstimate
from portal.jobs.services import job_cancel
from portal.planning.estimates import (
    estimates_tidy,
    estimates_write,
    no_estimate_for_job,
    past_estimates,
)
from portal.planning.planner_input import planner_input
from scheduler.commit.notices import deferrals_write
from scheduler.core.explain.alternatives import MAX_TRIED, AlternativeKind
from scheduler.core.forecast.calibration import WaitRange
from scheduler.core.forecast.pass_estimates import PassEstimate
from scheduler.core.forecast.starts import MIN_ENDED_RUNS
from scheduler.core.model.decisions import Deferral, Plan
from scheduler.core.model.policy import Policy
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.states import JobStatus
from scheduler.core.request import parse_request
from scheduler.estimates import (
    MAX_JOBS,
    AlternativesCache,
    EstimatePace,
    alternatives_of,
    estimates_refresh,
)
from scheduler.tasks import plan_once
from tests.support.ended_jobs import ended_jobs
from tests.support.rows import LIMITS, a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)

WHOLE = {"device": {"gpus": 1}}


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice)


@pytest.fixture
def node():
    return a_node("n1", gpus=2)


def a_full_cluster(alice, vision, node):
    """Half of one GPU is left; a job that wants a whole one waits."""
    a_job(alice, vision, device={"mig": "4g.71gb"})
    a_job(alice, vision, **WHOLE)
    waiting = a_job(alice, vision, time_limit="8h", **WHOLE)
    settle(node)
    waiting.refresh_from_db()
    assert waiting.status == JobStatus.QUEUED
    return waiting


def foretold(*waits, kind="fair", now=None):
    at = int((now or timezone.now()).timestamp())
    own = WaitRange(*map(float, waits))
    return PassEstimate(
        *(at + wait for wait in waits), verbatim("limits"), own=own, calibrated=own, kind=kind
    )


def test_a_job_is_told_what_would_start_now_and_it_does(alice, vision, node):
    waiting = a_full_cluster(alice, vision, node)
    estimates_refresh()
    waiting.refresh_from_db()
    first = waiting.reason["alternatives"][0]
    assert first["kind"] == AlternativeKind.PROFILE
    changed = job_of(alice, waiting.request | first["changes"])
    settle(node)
    changed.refresh_from_db()
    assert changed.status == JobStatus.RUNNING
    estimates_refresh()
    waiting.refresh_from_db()
    assert waiting.reason["alternatives"] == [], "nothing is left that would start"


def job_of(user, request):
    return a_job(user, user.memberships.get().project, **parsed(request))


def parsed(request):
    parse_request(request, LIMITS)
    return {name: value for name, value in request.items() if name != "project"}


def test_the_next_pass_keeps_alternatives_until_the_reason_is_another(alice, vision, node):
    waiting = a_full_cluster(alice, vision, node)
    estimates_refresh()
    plan_once()
    waiting.refresh_from_db()
    assert waiting.reason["alternatives"]
    deferrals_write(
        (Deferral(str(waiting.pk), Reason(ReasonCode.BEGIN_TIME, verbatim("later")), 1),)
    )
    waiting.refresh_from_db()
    assert "alternatives" not in waiting.reason


def test_equal_asks_are_tried_once_and_only_for_the_front_of_the_queue(alice, vision, node):
    a_full_cluster(alice, vision, node)
    snapshot = planner_input(now=timezone.now(), policy=Policy())
    (one,) = snapshot.jobs
    jobs = tuple(replace(one, id=str(n)) for n in range(MAX_JOBS + 5))
    reason = Reason(ReasonCode.RESOURCES, verbatim("full"))
    holds = tuple(Deferral(job.id, reason, n) for n, job in enumerate(jobs, 1))
    asked = []

    def can_start(job):
        asked.append(job)
        return False

    tried = AlternativesCache()
    long, plan = replace(snapshot, jobs=jobs), Plan(deferrals=holds)
    told = alternatives_of(long, plan, can_start, tried)
    assert sorted(told) == list(range(MAX_JOBS))
    count = len(asked)
    assert 0 < count <= MAX_TRIED
    alternatives_of(replace(long, now=long.now + 5), plan, can_start, tried)
    assert len(asked) == count, "the cluster is the same"
    alternatives_of(replace(long, nodes=()), plan, can_start, tried)
    assert len(asked) > count, "the cluster is another one"


@pytest.mark.parametrize("code", [ReasonCode.HELD, ReasonCode.DEPENDENCY, ReasonCode.BEGIN_TIME])
def test_nothing_is_tried_where_no_change_of_the_request_helps(alice, vision, node, code):
    a_full_cluster(alice, vision, node)
    snapshot = planner_input(now=timezone.now(), policy=Policy())
    plan = Plan(deferrals=(Deferral(snapshot.jobs[0].id, Reason(code, verbatim("so")), 1),))
    assert alternatives_of(snapshot, plan, lambda job: True, AlternativesCache()) == {}


def test_until_enough_jobs_have_ended_nobody_is_told_when_a_job_will_start(alice, vision, node):
    earlier = ended_jobs(alice, vision, MIN_ENDED_RUNS - 1)
    waiting = a_full_cluster(alice, vision, node)
    estimates_refresh()
    waiting.refresh_from_db()
    assert (waiting.estimate, StartEstimate.objects.count()) == (None, 0)
    assert no_estimate_for_job(waiting).text == "no estimate: no history to go by"
    assert len(earlier) == MIN_ENDED_RUNS - 1


def test_a_job_with_a_begin_time_is_told_a_start_from_then_on(alice, vision, node):
    ended_jobs(alice, vision)
    a_full_cluster(alice, vision, node)
    begins = timezone.now() + timedelta(hours=20)
    later = a_job(alice, vision, begin_at=begins.isoformat(timespec="seconds"), **WHOLE)
    plan_once()
    estimates_refresh()
    later.refresh_from_db()
    assert later.reason["code"] == ReasonCode.BEGIN_TIME
    assert later.estimate["optimistic"] >= int(begins.timestamp())
    assert StartEstimate.objects.get(job=later).kind == ""


def test_a_job_is_told_when_it_will_start_and_what_came_true_is_kept(alice, vision, node):
    ended_jobs(alice, vision)
    waiting = a_full_cluster(alice, vision, node)
    estimates_refresh()
    waiting.refresh_from_db()
    told = waiting.estimate
    assert told["optimistic"] <= told["expected"] <= told["pessimistic"]
    assert "limits of 2 running jobs" in told["basis"]
    (question,) = StartEstimate.objects.filter(job=waiting)
    assert question.started_at is None
    node.finish()
    settle(node)
    waiting.refresh_from_db()
    assert waiting.status == JobStatus.RUNNING
    assert waiting.estimate is None
    question.refresh_from_db()
    assert question.started_at == waiting.attempts.get().created_at
    (kept,) = past_estimates(timezone.now())
    assert kept.started
    assert kept.waited == pytest.approx(
        (question.started_at - question.estimated_at).total_seconds(), abs=1e-3
    )


def test_only_the_first_answer_is_kept_and_small_moves_are_not_written(alice, vision):
    job = a_job(alice, vision)
    now = timezone.now()
    first = foretold(100, 200, 300, now=now)
    estimates_write({str(job.pk): first}, now)
    job.refresh_from_db()
    told = job.estimate
    nearly = foretold(101, 203, 305, now=now)
    estimates_write({str(job.pk): nearly}, now + timedelta(seconds=15))
    job.refresh_from_db()
    assert job.estimate == told
    later = foretold(1_000, 2_000, 3_000, now=now)
    estimates_write({str(job.pk): later}, now + timedelta(seconds=30))
    job.refresh_from_db()
    assert job.estimate["expected"] - told["expected"] == 1_800
    row = StartEstimate.objects.get()
    assert (row.estimated_at, row.own) == (now, [100.0, 200.0, 300.0])


def test_a_job_without_a_basis_has_no_estimate(alice, vision):
    job = a_job(alice, vision)
    estimates_write({str(job.pk): foretold(1, 2, 3)}, timezone.now())
    estimates_write({}, timezone.now())
    job.refresh_from_db()
    assert job.estimate is None


def test_an_answer_that_nobody_is_told_is_kept_to_learn_from(alice, vision):
    job = a_job(alice, vision, **WHOLE)
    hidden = replace(foretold(60, 100, 200), is_published=False)
    estimates_write({str(job.pk): hidden}, timezone.now())
    job.refresh_from_db()
    assert job.estimate is None
    assert [question.own.expected for question in past_estimates(timezone.now())] == [100.0]


def test_answers_to_jobs_that_never_started_are_dropped(alice, vision):
    kept, cancelled = a_job(alice, vision), a_job(alice, vision)
    estimates_write({str(job.pk): foretold(1, 2, 3) for job in (kept, cancelled)}, timezone.now())
    job_cancel(job=cancelled, actor="alice")
    estimates_tidy()
    assert [row.job_id for row in StartEstimate.objects.all()] == [kept.pk]
    cancelled.refresh_from_db()
    assert cancelled.estimate is None


def test_only_the_newest_answers_are_kept(alice, vision, monkeypatch):
    monkeypatch.setattr("portal.planning.estimates.MAX_STORED", 2)
    jobs = [a_job(alice, vision) for _ in range(4)]
    for job in jobs:
        estimates_write({str(job.pk): foretold(1, 2, 3)}, timezone.now())
    estimates_tidy()
    assert {row.job_id for row in StartEstimate.objects.all()} == {jobs[2].pk, jobs[3].pk}


def test_a_pass_asks_again_after_a_while_or_when_others_wait(alice, vision, node):
    a_full_cluster(alice, vision, node)
    snapshot = planner_input(now=timezone.now(), policy=Policy())
    pace = EstimatePace()

    def is_due(seconds, *jobs):
        reason = Reason(ReasonCode.RESOURCES, verbatim("full"))
        plan = Plan(deferrals=tuple(Deferral(job, reason, 1) for job in jobs))
        return pace.is_due(replace(snapshot, now=snapshot.now + seconds), plan)

    assert not is_due(0), "nobody waits"
    assert is_due(0, "1")
    assert not is_due(14, "1")
    assert is_due(15, "1")
    assert not is_due(16, "1", "2"), "so often it is not worth it"
    assert is_due(18, "1", "2")


def test_what_waits_no_more_keeps_no_word_of_it(alice, vision, node):
    waiting = a_full_cluster(alice, vision, node)
    estimates_refresh()
    job_cancel(job=waiting, actor="alice")
    estimates_refresh()
    waiting.refresh_from_db()
    assert (waiting.reason, waiting.estimate) == (None, None)
    assert not Job.objects.filter(status=JobStatus.QUEUED).exists()
