"""One planning pass tells its waiting jobs when they will start, or nothing where it cannot."""

from dataclasses import replace

import pytest

from scheduler.core.forecast.calibration import MIN_RECORDS, EstimateRecord, WaitRange
from scheduler.core.forecast.pass_estimates import (
    LATE_SECONDS,
    MIN_RUNS,
    PassEstimate,
    affordable_runs,
    after_plan,
    estimate_record,
    estimate_starts,
    record_kind,
)
from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.forecast.starts import MIN_ENDED_RUNS, RUNS
from scheduler.core.model.policy import OrderMode, Policy, PreemptionMode
from scheduler.core.model.snapshot import PastRun, QuotaView
from scheduler.core.plan import plan
from tests.support.queue_worlds import a_busy_cluster, a_run, waiting
from tests.support.snapshots import NOW
from tests.unit.forecast.queues import a_queue, a_queued

HOUR = 3_600
FIFO = Policy(order=OrderMode.FIFO, preemption=PreemptionMode.OFF)
BY_TURN = Policy(preemption=PreemptionMode.ORDER)


def past(count, ratio=0.5):
    """Runs that took this part of their limits."""
    return tuple(
        PastRun("p", "ada", "g", 1, 1_000, True, int(1_000 * ratio), True, NOW - 10_000 + i)
        for i in range(count)
    )


def a_world(*jobs, limit=2 * HOUR, **fields):
    """A node of 4 GPUs that is full since an hour."""
    held = a_run(waiting("full", 4, time_limit_seconds=limit), *(f"n1/{i}" for i in range(4)),
                 since=HOUR)  # fmt: skip
    snapshot = a_busy_cluster([4], running=[held], jobs=jobs)
    return replace(snapshot, history=past(40), **fields)


def start_estimates(snapshot, policy=FIFO, questions=(), **fields):
    model = RuntimeModel.from_snapshot(snapshot)
    return estimate_starts(
        snapshot, policy, model, plan(snapshot, policy, model), questions, **fields
    )


def estimate_records(kind, factor=1.0, count=MIN_RECORDS):
    own = WaitRange(500.0, 1_000.0, 1_500.0)
    return [EstimateRecord(own, own, own.expected * factor, True, kind)] * count


def test_every_job_that_waits_for_devices_is_told_an_ordered_estimate_in_the_future():
    answers = start_estimates(a_world(waiting("1", 4), waiting("2", 2), waiting("3", 4)))
    assert set(answers) == {"1", "2", "3"}
    for found in answers.values():
        assert NOW <= found.optimistic <= found.expected <= found.pessimistic
        own = found.own
        assert 0 <= own.optimistic <= own.expected <= own.pessimistic <= found.pessimistic - NOW
        assert "40 ended runs" in found.basis.text


def test_a_job_that_this_pass_places_is_told_nothing_and_takes_its_place_in_the_forecast():
    snapshot = replace(
        a_busy_cluster([4], jobs=[waiting("1", 4), waiting("2", 4)]), history=past(40)
    )
    answers = start_estimates(snapshot)
    assert set(answers) == {"2"}
    assert answers["2"].optimistic > NOW


def test_who_holds_a_reservation_starts_by_then_at_the_latest():
    snapshot = a_world(waiting("1", 4), waiting("2", 4))
    model = RuntimeModel.from_snapshot(snapshot)
    found = plan(snapshot, FIFO, model)
    (promise,) = found.reservations
    late = estimate_records("fifo/off/normal", factor=50.0, count=40)
    answers = estimate_starts(snapshot, FIFO, model, found, late)
    assert answers["1"].pessimistic <= promise.starts_at
    assert "reserved" in answers["1"].basis.text
    assert answers["2"].pessimistic > promise.starts_at


def test_earlier_questions_of_the_same_kind_correct_the_answer_and_are_counted_in_the_basis():
    snapshot = a_world(waiting("1", 4), waiting("2", 4))
    plain = start_estimates(snapshot)["2"]
    found = start_estimates(
        snapshot, questions=estimate_records("fifo/off/normal", factor=3.0, count=60)
    )["2"]
    assert found.expected - NOW > 2 * (plain.expected - NOW)
    assert found.own == plain.own
    assert "corrected by 60 earlier forecasts" in found.basis.text


@pytest.mark.parametrize(
    "blocked",
    [
        waiting("x", 4, hold_reason="its owner"),
        waiting("x", 4, after=("full",)),
        waiting("x", 4, after=("full",), begin_at=NOW + 60),
        waiting("x", 64),
    ],
    ids=["held", "after another", "after another and later", "never fits"],
)
def test_a_job_that_waits_for_what_is_not_simulated_is_told_nothing(blocked):
    assert set(start_estimates(a_world(waiting("1", 4), blocked))) == {"1"}


def test_a_job_that_waits_for_quota_is_told_nothing():
    snapshot = a_world(waiting("1", 4, project="small"), waiting("2", 4))
    snapshot = replace(snapshot, quotas=(QuotaView("small", "", 1, 0),))
    assert set(start_estimates(snapshot)) == {"2"}


@pytest.mark.parametrize("chosen", [True, False])
def test_until_enough_runs_have_ended_nothing_is_told_whatever_the_limits_say(chosen):
    held = a_run(waiting("full", 4, limit_is_chosen=chosen), *(f"n1/{i}" for i in range(4)))
    snapshot = a_busy_cluster([4], running=[held], jobs=[waiting("1", 4, limit_is_chosen=chosen)])
    assert start_estimates(replace(snapshot, history=past(MIN_ENDED_RUNS - 1))) == {}
    assert set(start_estimates(replace(snapshot, history=past(MIN_ENDED_RUNS)))) == {"1"}


def test_a_job_with_a_begin_time_is_told_a_start_from_then_on_that_corrects_nobody():
    short, late = NOW + 60, NOW + 5 * HOUR
    snapshot = a_world(
        waiting("1", 2), waiting("soon", 4, begin_at=short), waiting("late", 4, begin_at=late)
    )
    answers = start_estimates(snapshot)
    assert answers["soon"].optimistic > answers["1"].optimistic > short
    assert answers["late"].optimistic >= late
    assert (answers["1"].kind, answers["soon"].kind) == ("fifo/off/normal", "")


def test_who_could_not_be_told_for_long_is_told_now_and_corrects_nobody():
    late = waiting("late", 4, queued_at=NOW - LATE_SECONDS - 1)
    answers = start_estimates(a_world(late, waiting("new", 4, queued_at=NOW - LATE_SECONDS)))
    assert (answers["late"].kind, answers["new"].kind) == ("", "fifo/off/normal")


@pytest.mark.parametrize("factor", [0.1, 4.0])
def test_only_the_wait_after_the_begin_time_is_corrected(factor):
    begins = 5 * HOUR
    snapshot = a_world(waiting("late", 4, begin_at=NOW + begins), waiting("long", 4))
    plain = start_estimates(snapshot)["late"]
    assert plain.expected - NOW > begins
    found = start_estimates(
        snapshot, questions=estimate_records("fifo/off/normal", factor=factor, count=60)
    )["late"]
    after, before = found.expected - NOW - begins, plain.expected - NOW - begins
    assert after == pytest.approx(factor * before, rel=0.05)
    alone = start_estimates(a_world(waiting("late", 4, begin_at=NOW + 9 * HOUR)))["late"]
    assert alone.optimistic >= NOW + 9 * HOUR


def test_where_jobs_are_stopped_by_turn_estimates_wait_for_questions_that_say_what_comes_of_it():
    snapshot = a_world(waiting("1", 4), waiting("2", 4))
    kind = record_kind(snapshot.jobs[0], BY_TURN)

    def are_told(questions):
        return {
            each.is_published for each in start_estimates(snapshot, BY_TURN, questions).values()
        }

    assert are_told(estimate_records(kind, count=MIN_RECORDS - 1)) == {False}, (
        "they are kept to learn from"
    )
    assert are_told(estimate_records("fair/off/normal", count=60)) == {False}
    assert are_told(estimate_records(kind)) == {True}


def test_the_answer_follows_from_the_seed_alone():
    snapshot = a_world(waiting("1", 4), waiting("2", 4))
    assert start_estimates(snapshot, seed=3) == start_estimates(snapshot, seed=3)


def test_what_is_kept_of_an_answer_is_a_question_that_can_be_asked_again():
    found = start_estimates(a_world(waiting("1", 4)))["1"]
    assert isinstance(found, PassEstimate)
    is_open = estimate_record(found.own, found.calibrated, NOW, None, found.kind, NOW + 90.0)
    assert (is_open.waited, is_open.started) == (90.0, False)
    ended = estimate_record(found.own, found.calibrated, NOW, NOW + 50.0, found.kind, NOW + 90.0)
    assert (ended.waited, ended.started) == (50.0, True)


def test_a_pass_that_is_carried_out_moves_placed_jobs_to_the_running_ones():
    snapshot = a_busy_cluster([4], jobs=[waiting("1", 4), waiting("2", 4)])
    after = after_plan(snapshot, plan(snapshot, FIFO))
    assert [job.id for job in after.jobs] == ["2"]
    assert [(held.job.id, held.started_at) for held in after.running] == [("1", NOW)]


def test_large_clusters_get_fewer_runs_and_never_too_few():
    small = a_queue([8] * 8, waiting=[a_queued(str(i), 1, 100) for i in range(1_000)])
    large = a_queue([8] * 5_000, waiting=small.waiting)
    assert affordable_runs(small) == RUNS
    assert affordable_runs(large) == MIN_RUNS
