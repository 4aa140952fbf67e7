"""A replay's forecaster asks when jobs are submitted and learns as they start and end."""

from scheduler.core.decisions import Place, Plan
from scheduler.core.forecast.asking import Forecaster
from scheduler.core.policy import Order, Policy
from scheduler.core.values import ClusterSnapshot
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
        places = () if before else (Place(job.id, ()),)
        forecaster.submitted(job, seen, Plan(places=places))
        if before:
            forecaster.ended(before, now, HOUR)
        forecaster.started(job, now)
        before = job


def test_starts_are_foretold_once_limits_are_known_to_be_doubles():
    forecaster = Forecaster(POLICY)
    one_after_the_other(forecaster, 60)
    found = forecaster.accuracy()
    assert found.asked == 59
    late = forecaster.told["59"].told
    assert late.optimistic == late.expected == late.pessimistic == HOUR / 2
    assert forecaster.summary()["eta_asked"] == 59
    assert found.median_error_pct == 0


def test_jobs_that_start_at_once_are_not_asked_about():
    forecaster = Forecaster(POLICY)
    one_after_the_other(forecaster, 1)
    assert forecaster.told == {}
    assert forecaster.summary() == {"eta_asked": 0, "eta_unknown": 0}


def test_only_every_so_many_th_is_asked_about():
    forecaster = Forecaster(POLICY, every=5)
    one_after_the_other(forecaster, 21)
    assert sorted(forecaster.told, key=int) == ["5", "10", "15", "20"]


def test_before_anything_is_known_it_does_not_guess():
    forecaster = Forecaster(POLICY)
    one_after_the_other(forecaster, 4, chosen=False)
    assert forecaster.unknown == ["1"]
    assert set(forecaster.told) == {"2", "3"}
