"""A replay's forecaster asks when jobs are submitted and learns as they start and end."""

import pytest

from scheduler.core.forecast.calibration import NEEDS
from scheduler.core.forecast.evaluation import Forecaster
from scheduler.core.forecast.starts import BASIS
from scheduler.core.model.decisions import Place, Plan
from scheduler.core.model.policy import Order, Policy
from scheduler.core.model.snapshot import ClusterSnapshot
from tests.unit.forecast.jobs import a_job
from tests.unit.forecast.test_queue_state import a_node, running

HOUR = 3_600
POLICY = Policy(order=Order.FIFO)


def one_after_the_other(forecaster, count, *, chosen=True):
    """One GPU, a job an hour, each submitted half an hour before its turn; limits are doubles."""
    before = None
    for number in range(count):
        at = number * HOUR + HOUR // 2
        job = a_job(str(number), at=at, limit=2 * HOUR, chosen=chosen)
        now = (number + 1) * HOUR
        held = (running(before, "a", 1, now - HOUR),) if before else ()
        seen = ClusterSnapshot(now=at, nodes=(a_node("a", 1),), jobs=(job,), running=held)
        found = Plan(places=() if before else (Place(job.id, ()),))
        forecaster.submitted(job, seen, found)
        forecaster.passed(seen, found)
        if before:
            forecaster.ended(before, now, HOUR)
        forecaster.started(job, now)
        before = job


def test_starts_are_foretold_once_limits_are_known_to_be_doubles():
    forecaster = Forecaster(POLICY)
    one_after_the_other(forecaster, 100)
    found = forecaster.accuracy()
    assert found.asked == 100 - BASIS - 1
    late = forecaster.told["99"].told
    assert late.optimistic == late.expected == late.pessimistic == HOUR / 2
    assert forecaster.summary()["eta_asked"] == found.asked
    assert found.median_error_pct == 0


def test_jobs_that_start_at_once_are_not_asked_about():
    forecaster = Forecaster(POLICY)
    one_after_the_other(forecaster, 1)
    assert forecaster.told == {}
    assert forecaster.summary() == {"eta_asked": 0, "eta_no_basis": 0, "eta_never_answered": 0}


def test_only_every_so_many_th_is_asked_about():
    forecaster = Forecaster(POLICY, every=5)
    one_after_the_other(forecaster, BASIS + 21)
    answered = sorted(int(id) for id in forecaster.told)
    assert answered == [id for id in range(BASIS + 1, BASIS + 21) if id % 5 == 0]


@pytest.mark.parametrize("chosen", [True, False])
def test_before_enough_runs_have_ended_it_says_so_and_does_not_guess(chosen):
    forecaster = Forecaster(POLICY)
    one_after_the_other(forecaster, BASIS + 3, chosen=chosen)
    assert forecaster.without_basis == {str(id) for id in range(1, BASIS + 1)}
    assert set(forecaster.told) == {str(BASIS + 1), str(BASIS + 2)}
    told = forecaster.summary()
    assert (told["eta_no_basis"], told["eta_never_answered"]) == (BASIS, BASIS)


def test_who_had_to_wait_for_a_basis_corrects_nobody():
    """Many that waited an hour each in vain, and one new question: it is told as it is forecast."""
    forecaster, node = Forecaster(POLICY), a_node("a", 1)
    first = [a_job(f"r{i}", limit=2 * HOUR, chosen=True) for i in range(BASIS + 1)]
    jobs = [a_job(str(i), at=i, limit=2 * HOUR, chosen=True) for i in range(1, 2 * NEEDS + 1)]
    held = (running(first[-1], "a", 1, 0),)

    def passed(now, *new):
        seen = ClusterSnapshot(now=now, nodes=(node,), jobs=(*jobs, *new), running=held)
        for job in new:
            forecaster.submitted(job, seen, Plan())
        forecaster.passed(seen, Plan())

    for job in first:
        seen = ClusterSnapshot(now=0, nodes=(node,), jobs=(job,))
        forecaster.submitted(job, seen, Plan(places=(Place(job.id, ()),)))
    passed(HOUR, *jobs)
    for job in first[:-1]:
        forecaster.ended(job, HOUR, HOUR)
    passed(HOUR)
    assert len(forecaster.told) == 2 * NEEDS
    new = a_job("new", at=100 * HOUR, limit=2 * HOUR, chosen=True)
    passed(100 * HOUR, new)
    assert forecaster.told["new"].told.expected == forecaster.told["new"].own.expected


def test_a_question_without_a_basis_is_asked_again_in_the_first_pass_that_has_one():
    forecaster, nodes = Forecaster(POLICY), (a_node("a", 1),)
    first = [a_job(f"r{i}", limit=2 * HOUR, chosen=True) for i in range(BASIS + 1)]
    jobs = [a_job(id, at=1, limit=2 * HOUR, chosen=True) for id in ("1", "2", "gone")]
    for job in (*first, *jobs):
        is_placed = job in first
        found = Plan(places=(Place(job.id, ()),) if is_placed else ())
        forecaster.submitted(job, ClusterSnapshot(now=1, nodes=nodes, jobs=(job,)), found)
    now, held = BASIS * HOUR, (running(first[-1], "a", 1, BASIS * HOUR),)

    def passed(jobs, at):
        seen = ClusterSnapshot(now=at, nodes=nodes, jobs=tuple(jobs), running=held)
        forecaster.passed(seen, Plan())

    passed(jobs, 1)
    assert (forecaster.told, forecaster.without_basis) == ({}, {"1", "2", "gone"})
    forecaster.started(jobs[2], now)
    for job in first[:-1]:
        forecaster.ended(job, now, HOUR)
    passed(jobs[:2], now)
    assert set(forecaster.told) == {"1", "2"}
    assert {asked.at for asked in forecaster.told.values()} == {now}
    answers = dict(forecaster.told)
    passed(jobs[:2], now + 60)
    assert forecaster.told == answers, "the first answer counts"
    forecaster.started(jobs[0], now + HOUR)
    assert forecaster.summary()["eta_never_answered"] == 1
    assert forecaster.accuracy().asked == 1
