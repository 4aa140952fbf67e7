"""Time: who is promised what, who may start beside a promise, and who is not looked at yet."""

import pytest

from scheduler.core.model.policy import BackfillMode, OrderMode
from scheduler.core.model.reasons import ReasonCode
from tests.support.queue_worlds import a_busy_cluster, a_run, waiting
from tests.support.snapshots import NOW, placed, plan_of, reason

FIFO = {"order": OrderMode.FIFO}


def world(*jobs):
    """Three of four GPUs are taken: one for 100 s more, two for 300 s more."""
    short = a_run(waiting("90", time_limit_seconds=100), "n1/0")
    long = a_run(waiting("91", gpus=2, time_limit_seconds=300), "n1/1", "n1/2")
    return a_busy_cluster([4], running=[short, long], jobs=jobs)


def test_the_first_blocked_job_is_promised_the_time_when_enough_work_has_ended():
    found = plan_of(world(waiting("1", gpus=2), waiting("2", gpus=4)), **FIFO)
    (promise,) = found.reservations
    assert (promise.job, promise.starts_at) == ("1", NOW + 100)
    assert len(promise.replicas[0].devices) == 2


def test_a_job_that_ends_before_the_promised_time_may_start_and_a_longer_one_may_not():
    head = waiting("1", gpus=4)
    ends_before = waiting("2", queued_at=NOW, time_limit_seconds=300)
    too_long = waiting("2", queued_at=NOW, time_limit_seconds=301)
    assert placed(plan_of(world(head, ends_before), **FIFO)) == ["2"]
    found = plan_of(world(head, too_long), **FIFO)
    assert not found.placements
    said = reason(found, "2")
    assert said.code is ReasonCode.RESERVATION
    assert said.evidence == {"job": "1", "starts_at": NOW + 300}


def test_a_shorter_job_is_tried_though_an_equal_request_was_too_long_before_it():
    jobs = [waiting("1", gpus=4), waiting("2"), waiting("3", time_limit_seconds=300)]
    found = plan_of(world(*jobs), **FIFO)
    assert placed(found) == ["3"]
    assert reason(found, "2").code is ReasonCode.RESERVATION


def test_a_long_job_may_start_beside_the_promised_place():
    found = plan_of(world(waiting("1", gpus=3), waiting("2", queued_at=NOW)), **FIFO)
    assert placed(found) == ["2"], "three of four are enough when the two have ended"
    assert [(r.job, r.starts_at) for r in found.reservations] == [("1", NOW + 300)]


def test_who_was_overtaken_is_named_and_who_came_later_is_not():
    jobs = [waiting("1", gpus=4), waiting("2", gpus=2), waiting("3", time_limit_seconds=60)]
    found = plan_of(world(*jobs, waiting("4", gpus=3, queued_at=NOW)), **FIFO)
    assert (placed(found), found.bypassed) == (["3"], ("1", "2"))


def test_without_backfill_nobody_passes_a_blocked_job():
    jobs = [waiting("1", gpus=4), waiting("2", time_limit_seconds=1)]
    found = plan_of(world(*jobs), backfill=BackfillMode.NONE, **FIFO)
    assert not found.placements
    assert reason(found, "2").code is ReasonCode.PRIORITY


def test_who_was_overtaken_too_often_goes_first_and_is_not_delayed_even_without_promises():
    jobs = [waiting("1", gpus=4, bypassed=5), waiting("2"), waiting("3", time_limit_seconds=300)]
    policy = {"backfill": BackfillMode.SKIP, "bypass_limit": 5}
    found = plan_of(world(*jobs), **policy)
    assert placed(found) == ["3"]
    assert [r.job for r in found.reservations] == ["1"]
    assert placed(plan_of(world(*jobs), **policy | {"bypass_limit": 6})) == ["3"]
    later = [jobs[0], waiting("2", queued_at=NOW)]
    assert not placed(plan_of(world(*later), **policy))
    assert placed(plan_of(world(*later), **policy | {"bypass_limit": 6})) == ["2"]


def test_conservative_backfill_promises_a_time_to_everybody_in_turn():
    jobs = [waiting(str(n), gpus=3, time_limit_seconds=50) for n in range(1, 4)]
    found = plan_of(world(*jobs), backfill=BackfillMode.CONSERVATIVE, **FIFO)
    assert [(r.job, r.starts_at - NOW) for r in found.reservations] == [
        ("1", 300),
        ("2", 350),
        ("3", 400),
    ]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"begin_at": NOW + 1}, ReasonCode.BEGIN_TIME),
        ({"after": ("7",)}, ReasonCode.DEPENDENCY),
        ({"hold_reason": "ann asked for it"}, ReasonCode.HELD),
    ],
)
def test_a_job_whose_turn_has_not_come_waits_with_its_reason_and_is_promised_nothing(fields, code):
    found = plan_of(world(waiting("1", **fields), waiting("2", gpus=4, **fields)), **FIFO)
    assert not found.placements
    assert not found.reservations
    assert reason(found, "1").code is code
    assert placed(plan_of(world(waiting("1", begin_at=NOW)))) == ["1"]
