"""A replay's evaluation asks when jobs are submitted and learns as they start and end."""

import pytest

from scheduler.core.forecast.calibration import MIN_RECORDS
from scheduler.core.forecast.evaluation import ForecastEvaluation
from scheduler.core.forecast.starts import MIN_ENDED_RUNS
from scheduler.core.model.decisions import JobPlacement, Plan
from scheduler.core.model.policy import OrderMode, Policy
from scheduler.core.model.snapshot import ClusterSnapshot
from tests.unit.forecast.jobs import a_job
from tests.unit.forecast.queues import a_node, running

HOUR = 3_600
POLICY = Policy(order=OrderMode.FIFO)


def one_after_the_other(evaluation, count, *, chosen=True):
    """One GPU, a job an hour, each submitted half an hour before its turn; limits are doubles."""
    before = None
    for number in range(count):
        at = number * HOUR + HOUR // 2
        job = a_job(str(number), at=at, limit=2 * HOUR, chosen=chosen)
        now = (number + 1) * HOUR
        held = (running(before, "a", 1, now - HOUR),) if before else ()
        seen = ClusterSnapshot(now=at, nodes=(a_node("a", 1),), jobs=(job,), running=held)
        found = Plan(placements=() if before else (JobPlacement(job.id, ()),))
        evaluation.on_submit(job, seen, found)
        evaluation.on_pass(seen, found)
        if before:
            evaluation.on_end(before, now, HOUR)
        evaluation.on_start(job, now)
        before = job


def test_starts_are_foretold_once_limits_are_known_to_be_doubles():
    evaluation = ForecastEvaluation(POLICY)
    one_after_the_other(evaluation, 100)
    found = evaluation.accuracy()
    assert found.estimates == 100 - MIN_ENDED_RUNS - 1
    late = evaluation.estimates["99"].published
    assert late.optimistic == late.expected == late.pessimistic == HOUR / 2
    assert evaluation.summary()["eta_asked"] == found.estimates
    assert found.median_error_pct == 0


def test_jobs_that_start_at_once_are_not_asked_about():
    evaluation = ForecastEvaluation(POLICY)
    one_after_the_other(evaluation, 1)
    assert evaluation.estimates == {}
    assert evaluation.summary() == {"eta_asked": 0, "eta_no_basis": 0, "eta_never_answered": 0}


def test_only_every_so_many_th_is_asked_about():
    evaluation = ForecastEvaluation(POLICY, every=5)
    one_after_the_other(evaluation, MIN_ENDED_RUNS + 21)
    answered = sorted(int(id) for id in evaluation.estimates)
    assert answered == [id for id in range(MIN_ENDED_RUNS + 1, MIN_ENDED_RUNS + 21) if id % 5 == 0]


@pytest.mark.parametrize("chosen", [True, False])
def test_before_enough_runs_have_ended_it_says_so_and_does_not_guess(chosen):
    evaluation = ForecastEvaluation(POLICY)
    one_after_the_other(evaluation, MIN_ENDED_RUNS + 3, chosen=chosen)
    assert evaluation.without_estimate == {str(id) for id in range(1, MIN_ENDED_RUNS + 1)}
    assert set(evaluation.estimates) == {str(MIN_ENDED_RUNS + 1), str(MIN_ENDED_RUNS + 2)}
    told = evaluation.summary()
    assert (told["eta_no_basis"], told["eta_never_answered"]) == (MIN_ENDED_RUNS, MIN_ENDED_RUNS)


def test_who_had_to_wait_for_a_basis_corrects_nobody():
    """Many that waited an hour each in vain, and one new question: it is told as it is forecast."""
    evaluation, node = ForecastEvaluation(POLICY), a_node("a", 1)
    first = [a_job(f"r{i}", limit=2 * HOUR, chosen=True) for i in range(MIN_ENDED_RUNS + 1)]
    jobs = [a_job(str(i), at=i, limit=2 * HOUR, chosen=True) for i in range(1, 2 * MIN_RECORDS + 1)]
    held = (running(first[-1], "a", 1, 0),)

    def passed(now, *new):
        seen = ClusterSnapshot(now=now, nodes=(node,), jobs=(*jobs, *new), running=held)
        for job in new:
            evaluation.on_submit(job, seen, Plan())
        evaluation.on_pass(seen, Plan())

    for job in first:
        seen = ClusterSnapshot(now=0, nodes=(node,), jobs=(job,))
        evaluation.on_submit(job, seen, Plan(placements=(JobPlacement(job.id, ()),)))
    passed(HOUR, *jobs)
    for job in first[:-1]:
        evaluation.on_end(job, HOUR, HOUR)
    passed(HOUR)
    assert len(evaluation.estimates) == 2 * MIN_RECORDS
    new = a_job("new", at=100 * HOUR, limit=2 * HOUR, chosen=True)
    passed(100 * HOUR, new)
    assert (
        evaluation.estimates["new"].published.expected == evaluation.estimates["new"].own.expected
    )


def test_a_question_without_a_basis_is_asked_again_in_the_first_pass_that_has_one():
    evaluation, nodes = ForecastEvaluation(POLICY), (a_node("a", 1),)
    first = [a_job(f"r{i}", limit=2 * HOUR, chosen=True) for i in range(MIN_ENDED_RUNS + 1)]
    jobs = [a_job(id, at=1, limit=2 * HOUR, chosen=True) for id in ("1", "2", "gone")]
    for job in (*first, *jobs):
        is_placed = job in first
        found = Plan(placements=(JobPlacement(job.id, ()),) if is_placed else ())
        evaluation.on_submit(job, ClusterSnapshot(now=1, nodes=nodes, jobs=(job,)), found)
    now, held = MIN_ENDED_RUNS * HOUR, (running(first[-1], "a", 1, MIN_ENDED_RUNS * HOUR),)

    def passed(jobs, at):
        seen = ClusterSnapshot(now=at, nodes=nodes, jobs=tuple(jobs), running=held)
        evaluation.on_pass(seen, Plan())

    passed(jobs, 1)
    assert (evaluation.estimates, evaluation.without_estimate) == ({}, {"1", "2", "gone"})
    evaluation.on_start(jobs[2], now)
    for job in first[:-1]:
        evaluation.on_end(job, now, HOUR)
    passed(jobs[:2], now)
    assert set(evaluation.estimates) == {"1", "2"}
    assert {asked.at for asked in evaluation.estimates.values()} == {now}
    answers = dict(evaluation.estimates)
    passed(jobs[:2], now + 60)
    assert evaluation.estimates == answers, "the first answer counts"
    evaluation.on_start(jobs[0], now + HOUR)
    assert evaluation.summary()["eta_never_answered"] == 1
    assert evaluation.accuracy().estimates == 1
