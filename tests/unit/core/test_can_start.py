"""Whether a changed job would start at the end of a pass: by its rules, without a trace."""

from dataclasses import replace

from scheduler.core.explain.alternatives import AlternativeKind, alternatives
from scheduler.core.model.policy import BackfillMode, OrderMode, Policy
from scheduler.core.model.snapshot import DeviceRequest, Priority
from scheduler.core.plan import plan, plan_and_can_start
from tests.support.queue_worlds import a_busy_cluster, a_run, waiting
from tests.support.snapshots import (
    H200,
    NOW,
    a_cluster,
    a_gpu,
    a_node,
    a_quota,
    as_bytes,
    known_boards,
)

FIRST_COME = Policy(order=OrderMode.FIFO)


def two_of_four_free(*jobs, **fields):
    held = waiting("90", gpus=2, time_limit_seconds=1_000)
    return replace(a_busy_cluster([4], running=[a_run(held, "n1/0", "n1/1")], jobs=jobs), **fields)


def of_gpus(job, gpus):
    return replace(job, device=DeviceRequest(gpus=gpus))


def test_a_job_could_start_with_as_many_gpus_as_are_left_after_the_pass():
    large, small = waiting("1", gpus=4), waiting("2", gpus=1, time_limit_seconds=900)
    found, can_start = plan_and_can_start(two_of_four_free(large, small), FIRST_COME)
    assert [place.job for place in found.placements] == ["2"]
    assert can_start(of_gpus(large, 1))
    assert not can_start(of_gpus(large, 2))
    assert not can_start(large)


def test_the_plan_is_the_one_without_questions_and_answers_do_not_change_each_other():
    jobs = [waiting(str(n), gpus=n, time_limit_seconds=900) for n in (4, 3)]
    snapshot = two_of_four_free(*jobs)
    found, can_start = plan_and_can_start(snapshot, FIRST_COME)
    asked = [of_gpus(job, gpus) for job in jobs for gpus in (1, 2, 3)]
    first = [can_start(job) for job in asked]
    assert [can_start(job) for job in asked[::-1]] == first[::-1]
    assert True in first and False in first
    assert as_bytes(found) == as_bytes(plan(snapshot, FIRST_COME))


def test_a_promise_to_another_is_kept_and_its_own_does_not_hinder_a_job():
    """The head gets all four GPUs when the others end; who is longer than that would delay it."""
    head, long = waiting("1", gpus=4), waiting("2", gpus=2, time_limit_seconds=5_000)
    _, can_start = plan_and_can_start(two_of_four_free(head, long), FIRST_COME)
    assert not can_start(long)
    assert can_start(replace(long, time_limit_seconds=900))
    assert can_start(of_gpus(replace(head, time_limit_seconds=9_000), 2))


def test_quota_and_turn_hold_for_a_changed_job_too():
    job = waiting("1", gpus=4)
    snapshot = two_of_four_free(job, quotas=(a_quota(gpus=4, used=3),))
    _, can_start = plan_and_can_start(snapshot, FIRST_COME)
    assert can_start(of_gpus(job, 1))
    assert not can_start(of_gpus(job, 2))
    assert not can_start(replace(of_gpus(job, 1), begin_at=NOW + 1))


def test_where_nobody_may_pass_only_the_first_could_start():
    first, second = waiting("1", gpus=4), waiting("2", gpus=4)
    strict = replace(FIRST_COME, backfill=BackfillMode.NONE)
    _, can_start = plan_and_can_start(two_of_four_free(first, second), strict)
    assert not can_start(of_gpus(second, 1))
    _, alone = plan_and_can_start(two_of_four_free(first), strict)
    assert alone(of_gpus(first, 1))


def beside_an_urgent_job(size, **fields):
    """J-1 stops J-90, which has GPUs 0 and 1. Whether J-2, which wants two, could have one now."""
    held = waiting("90", gpus=2, preemptible=True, priority=Priority.LOW)
    run = a_run(held, "n1/0", "n1/1", since=10_000)
    small = waiting("2", gpus=2, queued_at=2, priority=Priority.NORMAL)
    jobs = [waiting("1", priority=Priority.HIGH, queued_at=1), small]
    cluster = replace(a_busy_cluster([size], running=[run], jobs=jobs), **fields)
    found, can_start = plan_and_can_start(cluster, FIRST_COME)
    assert [each.job for each in found.preemptions] == ["90"]
    return can_start(of_gpus(small, 1))


def test_nothing_starts_on_the_devices_of_a_job_that_still_stops():
    """One of the two GPUs stays over, but not before the run has ended."""
    assert not beside_an_urgent_job(size=2)


def test_nothing_starts_with_the_quota_of_a_job_that_still_stops():
    """GPUs are idle, and half of the quota is over, but not before the run has ended."""
    assert not beside_an_urgent_job(size=4, quotas=(a_quota(gpus=2, used=2),))


def test_alternatives_are_asked_of_the_planner_itself():
    job = waiting("1", gpus=4, replicas=2)
    nodes = a_node(*[a_gpu()] * 8), a_node(*[a_gpu()] * 2, name="n2")
    other = waiting("2", gpus=4, queued_at=NOW - 500)
    _, can_start = plan_and_can_start(a_cluster(*nodes, jobs=[job, other]), FIRST_COME)
    found = alternatives(job, [known_boards()[H200]], can_start)
    assert [(a.kind, a.changes) for a in found] == [
        (AlternativeKind.GPUS, {"device": {"gpus": 2}}),
        (AlternativeKind.REPLICAS, {"replicas": 1}),
    ]
