"""Who is next: priority, then who holds least of their quota, then age; and nobody is lost."""

import itertools
from dataclasses import replace

import pytest

from scheduler.core.model.policy import DAY
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import OwnerView, Priority
from tests.support.snapshots import (
    NOW,
    a_cluster,
    a_gpu,
    a_job,
    a_node,
    a_quota,
    a_slice,
    placed,
    plan_of,
    reason,
)

ROOM_FOR_ONE = a_node(a_gpu(a_slice("4g.71gb", 0), a_slice("1g.18gb", 6)))  # one 2g.35gb, at 4
SHARES = (a_quota("rich", gpus=8, used=4), a_quota("poor", gpus=8, used=1))


def winner(*jobs, quotas=SHARES):
    """Which of the jobs gets the one free place, in whatever order they are listed."""
    found = {
        tuple(placed(plan_of(a_cluster(ROOM_FOR_ONE, jobs=some, quotas=quotas))))
        for some in itertools.permutations(jobs)
    }
    ((only,),) = found
    return only


def test_priority_comes_before_fairness_and_age():
    high = a_job("3", project="rich", priority=Priority.HIGH, queued_at=300)
    normal = a_job("2", project="poor", queued_at=200)
    low = a_job("1", project="poor", priority=Priority.LOW, queued_at=100)
    assert winner(high, normal, low) == "3"
    assert winner(normal, low) == "2"


def test_the_project_that_holds_least_of_its_quota_comes_before_the_older_job():
    assert winner(a_job("1", project="rich"), a_job("2", project="poor", queued_at=999_999)) == "2"


def test_a_share_is_of_the_projects_own_quota_and_no_count_of_gpus():
    quotas = (a_quota("large", gpus=100, used=10), a_quota("small", gpus=2, used=1))
    assert winner(a_job("1", project="small"), a_job("2", project="large"), quotas=quotas) == "2"


def test_inside_a_project_the_user_who_holds_least_comes_first():
    quotas = (a_quota("p", gpus=8, used=3), a_quota("p", "ann", gpus=4, used=2))
    quotas += (a_quota("p", "bob", gpus=4, used=1),)
    jobs = (a_job("1", user="ann"), a_job("2", user="bob", queued_at=999_999))
    assert winner(*jobs, quotas=quotas) == "2"


def test_among_equals_the_older_job_comes_first_and_then_the_smaller_number():
    assert winner(a_job("1", queued_at=200), a_job("2", queued_at=100), quotas=()) == "2"
    assert winner(a_job("10"), a_job("9"), quotas=()) == "9"
    assert winner(a_job("10", user="ann"), a_job("9", user="bob"), quotas=()) == "9"


def test_a_job_counts_as_half_as_large_when_it_has_waited_as_long_as_patience_says():
    small = a_job("2", time_limit_seconds=10_000)
    long, patience = 19_000, 7 * DAY
    patient = a_job("1", time_limit_seconds=long, queued_at=NOW - patience)
    newer = a_job("1", time_limit_seconds=long, queued_at=NOW - patience // 2)
    assert winner(small, patient, quotas=()) == "1"
    assert winner(small, newer, quotas=()) == "2"


def test_a_greedy_project_steps_back_after_each_job_it_gets():
    greedy = [a_job(str(i), project="greedy", gpus=1, queued_at=i) for i in range(1, 5)]
    modest = [a_job(str(i), project="modest", gpus=1, queued_at=100 + i) for i in range(5, 7)]
    quotas = (a_quota("greedy", gpus=8), a_quota("modest", gpus=8))
    node = a_node(a_gpu(), a_gpu(), a_gpu(), a_gpu())
    found = plan_of(a_cluster(node, jobs=greedy + modest, quotas=quotas))
    assert placed(found) == ["1", "5", "2", "6"]


@pytest.mark.parametrize(("attained", "second"), [(0, "3"), (99_000, "2")])
def test_a_job_that_starts_again_costs_its_owner_only_what_is_left_of_its_limit(attained, second):
    """p and q have used nothing. p gets the first GPU for a long time, or for the rest of one."""
    resumed = a_job("1", gpus=1, time_limit_seconds=100_000, attained_seconds=attained, queued_at=0)
    jobs = [
        replace(resumed, priority=Priority.HIGH),
        a_job("2", gpus=1, time_limit_seconds=10_000),
        a_job("3", gpus=1, time_limit_seconds=10_500, project="q"),
    ]
    node = a_node(a_gpu(), a_gpu())
    owners = (OwnerView("p", "", 1, 0), OwnerView("q", "", 1, 0))
    found = plan_of(replace(a_cluster(node, jobs=jobs), owners=owners))
    assert placed(found) == ["1", second]


def test_a_job_that_cannot_start_does_not_stop_those_behind_it():
    jobs = [a_job("1", mig="4g.71gb", priority=Priority.HIGH), a_job("2")]
    found = plan_of(a_cluster(ROOM_FOR_ONE, jobs=jobs))
    assert placed(found) == ["2"]
    assert [h.job for h in found.deferrals] == ["1"]


def test_one_that_came_too_late_is_told_that_others_were_ahead():
    found = plan_of(a_cluster(ROOM_FOR_ONE, jobs=[a_job("1"), a_job("2")]))
    assert reason(found, "2").code is ReasonCode.PRIORITY


def test_positions_count_from_one_in_the_order_of_the_pass():
    jobs = [a_job(str(i), mig="7g.141gb", queued_at=100 - i) for i in range(1, 6)]
    jobs.append(a_job("6", mig="7g.141gb", priority=Priority.HIGH))
    found = plan_of(a_cluster(ROOM_FOR_ONE, jobs=jobs))
    assert [(h.job, h.position) for h in found.deferrals] == [
        ("6", 1),
        *[("5", 2), ("4", 3), ("3", 4), ("2", 5), ("1", 6)],
    ]


def test_every_waiting_job_is_either_placed_or_held():
    jobs = [a_job("1"), a_job("2"), a_job("3", mig="9g.999gb"), a_job("4", gpus=1)]
    jobs += [a_job("5", gpus=3), a_job("6", mps=(25, 10**6)), a_job("7", project="rich", gpus=5)]
    found = plan_of(a_cluster(ROOM_FOR_ONE, jobs=jobs, quotas=SHARES))
    assert sorted(placed(found) + [h.job for h in found.deferrals]) == [j.id for j in jobs]


def test_an_empty_queue_gives_an_empty_plan():
    found = plan_of(a_cluster(ROOM_FOR_ONE))
    assert (found.placements, found.merges, found.deferrals) == ((), (), ())
