"""With how many replicas a gang of several sizes starts, and when it grows."""

from dataclasses import replace

import pytest

from scheduler.core.model.decisions import ReplicaPlacement, Resize
from scheduler.core.model.policy import OrderMode, Policy
from scheduler.core.pass_growth import GROW_SECONDS
from scheduler.core.plan import plan
from tests.support.queue_worlds import a_busy_cluster, a_run, waiting
from tests.support.snapshots import NOW, a_quota, devices, placed, plan_of, reason

FIFO = {"order": OrderMode.FIFO}
DAY = 86_400


def sizes_of(found):
    return {place.job: len(place.replicas) for place in found.placements}


def test_it_starts_with_the_most_that_are_free_and_leaves_the_rest_to_others():
    elastic = waiting("1", replicas=2, sizes=(2, 4, 8))
    others = [waiting(key, queued_at=NOW) for key in "23"]
    found = plan_of(a_busy_cluster([3, 3], jobs=[elastic, *others]), **FIFO)
    assert sizes_of(found) == {"1": 4, "2": 1, "3": 1}
    taken = [device for key in "123" for device in devices(found, key)]
    assert len(taken) == len(set(taken)) == 6


def test_a_quota_allows_a_smaller_size():
    world = a_busy_cluster([8], jobs=[waiting("1", replicas=2, sizes=(2, 4, 8))])
    assert sizes_of(plan_of(replace(world, quotas=(a_quota(gpus=5),)))) == {"1": 4}
    assert not placed(plan_of(replace(world, quotas=(a_quota(gpus=1),))))


def test_it_delays_no_promised_start():
    """The job ahead needs three of four GPUs once another one ends: one is left for longer work."""
    run = a_run(waiting("90", gpus=2, time_limit_seconds=300), "n1/0", "n1/1")
    ahead = waiting("1", gpus=3)
    elastic = waiting("2", queued_at=NOW, sizes=(1, 2), time_limit_seconds=DAY)
    found = plan_of(a_busy_cluster([4], running=[run], jobs=[ahead, elastic]), **FIFO)
    assert [each.job for each in found.reservations] == ["1"]
    assert sizes_of(found) == {"2": 1}
    short = replace(elastic, time_limit_seconds=300)
    found = plan_of(a_busy_cluster([4], running=[run], jobs=[ahead, short]), **FIFO)
    assert sizes_of(found) == {"2": 2}


def test_while_its_own_devices_are_about_to_be_free_it_waits_for_them():
    own = waiting("1", replicas=2, sizes=(2, 4), is_releasing=True)
    equal = waiting("2", replicas=2, queued_at=NOW)
    found = plan_of(a_busy_cluster([4], jobs=[own, equal]), **FIFO)
    assert reason(found, "1").sentence.startswith("The devices of its last attempt")
    assert sizes_of(found) == {"2": 2}, "an equal request does not wait for them"
    later = replace(own, is_releasing=False)
    assert sizes_of(plan_of(a_busy_cluster([4], jobs=[later]))) == {"1": 4}


# Growth.


def grown(**world):
    """What becomes of a gang of two replicas beside so many free GPUs."""
    return plan_of(a_gang_world(**world), **FIFO).resizes


def a_gang_world(
    *, free=2, jobs=(), since=GROW_SECONDS, sizes=(2, 4), stopping=False, has_saved=True
):
    job = waiting("7", replicas=2, time_limit_seconds=DAY, sizes=sizes)
    run = a_run(job, "n1/0", "n1/1", since=since, stopping=stopping)
    (both,) = run.replicas
    each = tuple(ReplicaPlacement(n, both.node, (d,)) for n, d in enumerate(both.devices))
    run = replace(run, replicas=each, has_saved=has_saved)
    return a_busy_cluster([2 + free], running=[run], jobs=jobs)


def test_it_grows_to_its_next_size_where_devices_are_free():
    assert grown() == (Resize("7", 2, 4),)
    assert grown(free=1, sizes=(2, 3, 4)) == (Resize("7", 2, 3),)


NEVER = {
    "too few are free": {"free": 1},
    "it has its greatest size": {"sizes": (1, 2)},
    "it has one size": {"sizes": ()},
    "it has saved nothing": {"has_saved": False},
    "it has not run for long": {"since": GROW_SECONDS - 1},
    "little is left of its limit": {"since": DAY - GROW_SECONDS},
    "it stops": {"stopping": True},
    "somebody starts": {"jobs": [waiting("1")], "free": 4},
    "somebody waits": {"jobs": [waiting("1", replicas=3)]},
}


@pytest.mark.parametrize("world", NEVER.values(), ids=NEVER)
def test_it_does_not_grow_where(world):
    assert grown(**world) == ()


def test_somebody_who_could_not_have_the_devices_does_not_keep_it_small():
    held = waiting("1", replicas=3, hold_reason="later")
    assert grown(jobs=[held]) == (Resize("7", 2, 4),)


def test_it_does_not_grow_at_the_end_of_a_queue_that_took_several_passes():
    """Who had a turn in an earlier one may wait for the devices, or for quota."""
    world = a_gang_world(free=3, jobs=[waiting("1", gpus=3), waiting("2", hold_reason="later")])
    world = replace(world, quotas=(a_quota(gpus=4, used=2),))
    first = plan(world, Policy(**FIFO), should_stop=lambda turns: turns >= 1)
    assert first.continuation and not first.resizes
    last = plan(world, Policy(**FIFO), continued=first.continuation)
    assert (last.continuation, last.resizes) == (None, ())


def test_a_gang_elsewhere_than_on_own_nodes_does_not_grow():
    """Its site hides its nodes: it has no replicas on any here."""
    world = a_gang_world()
    (run,) = world.running
    assert plan_of(replace(world, running=(replace(run, replicas=()),)), **FIFO).resizes == ()
