"""A pass that is stopped early gives what it has; the passes that continue it reach every job.

Between two passes the placements are carried out and work is stopped, as the committer does.
"""

from dataclasses import replace

import pytest

from scheduler.core.model.policy import BackfillMode, OrderMode, Policy, PreemptionMode
from scheduler.core.plan import plan
from tests.property.core.busy_worlds import POLICIES, a_world
from tests.property.core.partial_commits import begun, stopped
from tests.support.examples import first_quick
from tests.support.queue_worlds import a_busy_cluster, a_run, waiting
from tests.support.snapshots import as_bytes

WORLDS = 60
QUICK = ("default", "conservative")
named = pytest.mark.parametrize(
    "policy",
    [
        pytest.param(policy, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, policy in POLICIES.items()
    ],
)


def after(count):
    """Stop after this number of turns; never sooner."""
    return lambda turns: turns >= count


def in_parts(world, policy, turns):
    """Passes of `turns` turns until one is not stopped: placements, deferrals by job, and how many
    passes it took."""
    placements, reasons, passes, continued = [], {}, 0, None
    while passes == 0 or continued:
        found = plan(world, policy, should_stop=after(turns), continued=continued)
        passes += 1
        placements += found.placements
        reasons |= {each.job: each for each in found.deferrals}
        world = stopped(begun(world, found.placements), found.preemptions)
        continued = found.continuation
        assert passes <= len(world.jobs) + len(placements) + 1, "it does not end"
    return placements, reasons, passes


@named
def test_a_pass_that_is_not_stopped_is_the_whole_pass(policy):
    for number in range(WORLDS):
        world = a_world(number)
        whole = plan(world, policy)
        turns = []
        watched = plan(world, policy, should_stop=turns.append)
        assert as_bytes(watched) == as_bytes(whole)
        assert whole.continuation is None
        assert turns == list(range(1, len(world.jobs)))


@named
@pytest.mark.parametrize("turns", first_quick(4, 1, 2))
def test_every_job_has_its_turn_although_each_pass_is_stopped(policy, turns):
    stops = same = 0
    for number in range(WORLDS):
        world = a_world(number)
        whole = plan(world, policy)
        placements, reasons, passes = in_parts(world, policy, turns)
        started = [placement.job for placement in placements]
        assert len(started) == len(set(started))
        assert set(started) | reasons.keys() == {job.id for job in world.jobs}
        same += set(started) == {placement.job for placement in whole.placements}
        stops += passes > 1
    assert stops > WORLDS / 4
    assert same >= 0.95 * WORLDS


def test_a_pass_stopped_after_as_many_turns_is_the_same_bytes():
    for number in range(WORLDS):
        world = a_world(number)
        first = plan(world, Policy(), should_stop=after(2))
        again = plan(world, Policy(), should_stop=after(2))
        assert as_bytes(first) == as_bytes(again)
        if first.continuation:
            assert len(first.placements) + len(first.deferrals) == 2


def test_the_job_behind_many_blocked_ones_has_its_turn_in_the_second_pass():
    """Without a continuation, each pass would be stopped behind the same blocked jobs."""
    policy = Policy(preemption=PreemptionMode.OFF, backfill=BackfillMode.SKIP)
    for number in range(WORLDS):
        world = a_world(number)
        if len(world.jobs) < 4:
            continue
        blocked = [replace(job, replicas=50, queued_at=1) for job in world.jobs[:-1]]
        last = replace(world.jobs[-1], queued_at=2, priority=min(j.priority for j in blocked))
        crowd = replace(world, jobs=(*blocked, last))
        first = plan(crowd, policy, should_stop=after(2))
        second = plan(crowd, policy, should_stop=after(len(blocked)), continued=first.continuation)
        seen = {each.job for each in (*first.deferrals, *second.deferrals, *second.placements)}
        assert seen == {job.id for job in crowd.jobs}


def test_positions_count_the_jobs_that_are_left_out():
    for number in range(WORLDS):
        world = a_world(number)
        whole = {d.job: d.position for d in plan(world, Policy()).deferrals}
        first = plan(world, Policy(), should_stop=after(2))
        if first.continuation is None or first.placements:
            continue
        second = plan(world, Policy(), continued=first.continuation)
        assert {d.job: d.position for d in second.deferrals}.items() <= whole.items()


def test_without_backfill_a_continued_pass_starts_nothing_before_a_job_that_is_left_out():
    """When the first blocked job has started, the one behind it is the next one, in any pass."""
    policy = Policy(order=OrderMode.FIFO, backfill=BackfillMode.NONE, preemption=PreemptionMode.OFF)
    run = a_run(waiting("90", gpus=2), "n1/1", "n1/2")
    jobs = [
        waiting("1", gpus=2, queued_at=1),
        waiting("2", gpus=2, queued_at=2),
        waiting("3", queued_at=3),
    ]
    world = a_busy_cluster([3], running=[run], jobs=jobs)
    first = plan(world, policy, should_stop=after(2))
    assert [each.job for each in first.deferrals] == ["1", "2"]
    ended = a_busy_cluster([3], running=[], jobs=jobs)
    second = plan(ended, policy, continued=first.continuation)
    assert [each.job for each in second.placements] == ["1"]
    assert [each.job for each in second.deferrals] == ["2", "3"]
