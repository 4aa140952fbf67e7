"""Who stops for whom: the fewest, the latest in order, and nobody in the time that is protected."""

import pytest

from scheduler.core.model.decisions import PreemptionCause
from scheduler.core.model.policy import OrderMode, PreemptionMode
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import Priority
from tests.support.queue_worlds import a_busy_cluster, a_run, waiting
from tests.support.snapshots import NOW, placed, plan_of, reason

ORDER = {"preemption": PreemptionMode.ORDER, "order": OrderMode.SMALLEST}
LONG = 1_000_000


def running(id, *gpus, since=10_000, stopping=False, **fields):
    fields = {"preemptible": True, "time_limit_seconds": LONG} | fields
    return a_run(waiting(id, gpus=len(gpus), **fields), *gpus, since=since, stopping=stopping)


def stops(found):
    return [(p.job, p.for_job, p.cause) for p in found.preemptions]


def test_the_job_that_is_latest_in_order_stops_and_its_place_is_kept():
    runs = [running("90", "n1/0"), running("91", "n1/1", time_limit_seconds=2 * LONG)]
    jobs = [waiting("1", time_limit_seconds=60), waiting("2", time_limit_seconds=3 * LONG)]
    found = plan_of(a_busy_cluster([2], running=runs, jobs=jobs), **ORDER)
    assert stops(found) == [("91", "1", PreemptionCause.ORDER)]
    assert not found.placements
    said = reason(found, "1")
    assert (said.code, said.evidence) == (ReasonCode.PRIORITY, {"stopping": ["91"]})
    assert said.sentence == "It waits until J-91 has stopped"


def test_nobody_stops_who_need_not():
    """Three are behind the job in order; the two on one node make room."""
    runs = [
        running("90", "n1/0", "n1/1", time_limit_seconds=3 * LONG),
        running("91", "n2/0", time_limit_seconds=9 * LONG),
        running("92", "n2/1", time_limit_seconds=8 * LONG),
    ]
    jobs = [waiting("1", gpus=2, time_limit_seconds=60)]
    found = plan_of(a_busy_cluster([2, 2], running=runs, jobs=jobs), **ORDER)
    assert sorted(p.job for p in found.preemptions) == ["91", "92"]


@pytest.mark.parametrize(
    "fields",
    [
        {"preemptible": False},
        {"since": 1_799},
        {"since": 3_599, "preempted": 1},
        {"time_limit_seconds": 10_061},
        {"stopping": True},
    ],
)
def test_work_that_cannot_be_stopped_or_is_protected_or_nearly_as_small_is_left_alone(fields):
    jobs = [waiting("1", time_limit_seconds=60)]
    found = plan_of(
        a_busy_cluster([1], running=[running("90", "n1/0", **fields)], jobs=jobs), **ORDER
    )
    assert not found.preemptions
    assert not found.placements


def test_what_stops_already_is_waited_for_and_nobody_else_stops():
    runs = [running("90", "n1/0", stopping=True), running("91", "n1/1")]
    jobs = [waiting("1", time_limit_seconds=60)]
    found = plan_of(a_busy_cluster([2], running=runs, jobs=jobs), **ORDER)
    assert not found.preemptions
    assert reason(found, "1").evidence == {"stopping": ["90"]}


def test_by_priority_only_lower_bands_stop():
    for band, stopped in ((Priority.LOW, ["90"]), (Priority.NORMAL, [])):
        runs = [running("90", "n1/0", priority=band)]
        jobs = [waiting("1", time_limit_seconds=60)]
        found = plan_of(a_busy_cluster([1], running=runs, jobs=jobs))
        assert [p.job for p in found.preemptions] == stopped
        assert all(p.cause is PreemptionCause.PRIORITY for p in found.preemptions)


def test_a_smaller_job_that_is_ahead_moves_where_that_makes_room():
    """n1 has one free GPU and n2 has one: the job of two needs one of the small ones to move."""
    runs = [running("90", "n1/0", time_limit_seconds=10_050)]
    runs += [running("91", "n2/0", time_limit_seconds=10_050)]
    jobs = [waiting("1", gpus=2, time_limit_seconds=LONG)]
    world = a_busy_cluster([2, 2], running=runs, jobs=jobs)
    assert not plan_of(world, **ORDER).preemptions
    assert stops(plan_of(world, moves=1, **ORDER)) == [("90", "1", PreemptionCause.MOVE)]


@pytest.mark.parametrize(("seconds", "stopped"), [(300, ["90"]), (301, [])])
def test_nobody_stops_for_a_job_that_would_delay_a_promised_start(seconds, stopped):
    """All GPUs are promised to J-1 in 300 s; the place of J-90 would be free in 100 s."""
    runs = [
        running("90", "n1/0", priority=Priority.LOW, time_limit_seconds=10_100),
        running("91", "n1/1", preemptible=False, time_limit_seconds=10_300),
    ]
    head = waiting("1", gpus=2, priority=Priority.HIGH)
    jobs = [head, waiting("2", time_limit_seconds=seconds)]
    found = plan_of(a_busy_cluster([2], running=runs, jobs=jobs))
    assert [(r.job, r.starts_at) for r in found.reservations][:1] == [("1", NOW + 300)]
    assert [p.job for p in found.preemptions] == stopped
    assert not found.placements


def test_off_stops_nobody():
    runs = [running("90", "n1/0", priority=Priority.LOW)]
    jobs = [waiting("1", time_limit_seconds=60, priority=Priority.HIGH)]
    found = plan_of(a_busy_cluster([1], running=runs, jobs=jobs), preemption=PreemptionMode.OFF)
    assert not found.preemptions
    assert not placed(found)
