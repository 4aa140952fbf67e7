"""A plan that was committed in part and is made again: the same end, nothing twice, nobody lost.

The committer takes gangs whole and in order, then tells work to stop. Whatever it had done when it
died, the next pass starts from the world as it is then.
"""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.policy import Policy
from scheduler.core.plan import plan
from tests.property.core.busy_worlds import POLICIES, a_world
from tests.property.core.partial_commits import begun, stopped
from tests.property.core.worlds import worlds
from tests.support.examples import examples
from tests.support.snapshots import illegal_reason

many = examples(60)
worlds_tried = pytest.mark.parametrize("count", [8, pytest.param(120, marks=pytest.mark.slow)])
named = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


def ids(answers):
    return {each.job for each in answers}


def converged(snapshot, policy):
    """Pass after pass until nothing more starts; merges and stops are not waited for."""
    started = []
    while found := plan(snapshot, policy).placements:
        jobs = {job.id: job for job in snapshot.jobs}
        for number, place in enumerate(found):
            assert illegal_reason(place, jobs[place.job], begun(snapshot, found[:number])) is None
        started += found
        snapshot = begun(snapshot, found)
    return snapshot, started


@named
@worlds_tried
@pytest.mark.parametrize("owners", [False, True], ids=["quotas", "shares"])
def test_after_a_crash_between_two_placements_the_rest_is_decided_as_before(policy, owners, count):
    placed = 0
    for number in range(count):
        world = a_world(number, owners=owners)
        whole = plan(world, policy)
        for done in range(len(whole.placements) + 1):
            again = plan(begun(world, whole.placements[:done]), policy)
            assert again.placements == whole.placements[done:], number
            assert again.preemptions == whole.preemptions, number
        placed += len(whole.placements)
    assert placed > count / 2, "the worlds are not trivial"


@many
@given(snapshot=worlds(max_jobs=8))
def test_so_it_is_with_slices_shares_quotas_and_places_that_wait_for_merges(snapshot):
    whole = plan(snapshot, Policy())
    for done in range(len(whole.placements) + 1):
        again = plan(begun(snapshot, whole.placements[:done]), Policy())
        assert again.placements == whole.placements[done:]
        assert again.merges == whole.merges


@named
@worlds_tried
def test_when_the_world_overtook_any_of_them_nothing_is_given_twice_and_nothing_is_left(
    policy, count
):
    """Any subset of the placements was committed. Its end may be another one: who was passed over
    may find its place taken. It is as good: nobody else who waits would fit."""
    same = worlds_with_a_choice = 0
    for number in range(count):
        world, draw = a_world(number), random.Random(number)
        whole = plan(world, policy).placements
        some = [place for place in whole if draw.random() < 0.5]
        end, more = converged(begun(world, some), policy)
        started = [place.job for place in (*some, *more)]
        assert len(started) == len(set(started))
        devices = [d.gpu for r in end.running for replica in r.replicas for d in replica.devices]
        assert len(devices) == len(set(devices))
        waiting_first, waiting_last = ({job.id for job in w.jobs} for w in (world, end))
        assert waiting_last == waiting_first - set(started)
        if whole and whole[0] not in some:
            assert whole[0].job in started, "who was first is first again"
        worlds_with_a_choice += len(whole) > 1
        same += len(whole) > 1 and set(started) == ids(whole)
    assert same >= 0.95 * worlds_with_a_choice > count / 10


@st.composite
def parts(draw):
    return draw(st.integers(0, 10_000)), draw(st.integers(0, 8))


@examples(150)
@given(part=parts())
def test_after_a_crash_between_two_preemptions_the_same_work_stops_for_the_same_jobs(part):
    number, told = part
    world = a_world(number)
    whole = plan(world, Policy())
    after = stopped(begun(world, whole.placements), whole.preemptions[:told])
    again = plan(after, Policy())
    assert not again.placements
    assert ids(whole.preemptions[:told]) | ids(again.preemptions) == ids(whole.preemptions)
