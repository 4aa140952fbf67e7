"""The planner against an exact oracle on small worlds.

What plan.py promises is a turn for every job: in order, each is placed when it can be placed beside
what is held and what the jobs before it got. It promises no best packing of the whole queue, so the
oracle is asked turn by turn; for a queue of one profile, where places cannot be chosen badly, the
number that is placed must be the largest there is.
"""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.core.model.policy import BackfillMode, OrderMode
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import Priority
from scheduler.core.placement.feasibility import infeasible_reason
from tests.property.core.cp_sat_oracle import kinds, most, possible, price
from tests.property.core.plan_effects import carried_out, emptied, without_idle
from tests.property.core.worlds import PROFILES, nodes, worlds
from tests.support.examples import examples
from tests.support.snapshots import A30, H200, a_cluster, a_job, plan_of

few = examples(200)
small = worlds(max_nodes=3, max_gpus=2, max_jobs=4, with_quotas=False)
# First come, first served, and whoever fits: no order but that of arrival, no promise in the way.
IN_TURN = {"order": OrderMode.FIFO, "backfill": BackfillMode.SKIP}
lone = worlds(max_nodes=3, max_gpus=2, max_jobs=1, with_quotas=False)


def can(job, snapshot):
    return any(possible(job, kind, snapshot) for kind in kinds(job, snapshot))


@st.composite
def slice_queues(draw, *, one_profile=False):
    """One to three GPUs on one node, and one-replica jobs for MIG slices with equal priority."""
    board = draw(st.sampled_from([H200, A30]))
    node = draw(nodes("a", (board,), most=3))
    names = st.sampled_from(PROFILES[board])
    only = draw(names)
    jobs = [
        a_job(str(i), mig=only if one_profile else draw(names), queued_at=i)
        for i in range(1, draw(st.sampled_from(range(1, 9))) + 1)
    ]
    host = {"cpu_free_milli": 64_000, "cpu_total_milli": 64_000, "memory_free_mib": 64_000}
    return a_cluster(replace(node, **host), jobs=jobs)


@few
@given(snapshot=slice_queues())
def test_the_first_job_is_placed_whenever_it_can_be(snapshot):
    first = snapshot.jobs[0]
    plan = plan_of(snapshot, **IN_TURN)
    assert (first.id in {place.job for place in plan.placements}) == can(first, snapshot)


@few
@given(snapshot=slice_queues())
def test_each_slice_job_in_turn_is_placed_exactly_when_it_can_be(snapshot):
    plan = plan_of(snapshot, merge=False, **IN_TURN)
    places = {place.job: place for place in plan.placements}
    assert [place.job for place in plan.placements] == sorted(places, key=int)
    world = snapshot
    for job in snapshot.jobs:
        assert (job.id in places) == can(job, world), job.id
        world = carried_out(world, [places[job.id]] if job.id in places else [])


@few
@given(snapshot=slice_queues(one_profile=True))
def test_of_equal_jobs_as_many_are_placed_as_is_possible_at_all(snapshot):
    assume(kinds(snapshot.jobs[0], snapshot))
    plan = plan_of(snapshot, merge=False)
    assert len(plan.placements) == most(snapshot.jobs, snapshot)
    assert [place.job for place in plan.placements] == [
        job.id for job in snapshot.jobs[: len(plan.placements)]
    ]


@pytest.mark.slow
@few
@given(snapshot=slice_queues())
def test_no_plan_places_more_than_is_possible(snapshot):
    plan = plan_of(snapshot)
    asking = [job for job in snapshot.jobs if kinds(job, snapshot)]
    assert len(plan.placements) <= most(asking, snapshot)


@few
@given(snapshot=small)
def test_gangs_and_whole_gpus_in_turn_are_placed_exactly_when_they_can_be(snapshot):
    """All of one priority, project and user: the turn is by age, then by id."""
    jobs = [replace(j, priority=Priority.LOW, project="p", user="u") for j in snapshot.jobs]
    world = replace(snapshot, jobs=tuple(jobs))
    plan = plan_of(world, merge=False, **IN_TURN)
    places = {place.job: place for place in plan.placements}
    for job in sorted(jobs, key=lambda job: (job.queued_at, int(job.id))):
        assert (job.id in places) == can(job, world), job.id
        world = carried_out(world, [places[job.id]] if job.id in places else [])


@few
@given(snapshot=lone)
def test_a_job_gets_the_cheapest_kind_that_is_possible(snapshot):
    (job,) = snapshot.jobs
    for place in plan_of(snapshot, merge=False).placements:
        paid = sum(device.units for device in place.replicas[0].devices)
        here = [kind for kind in kinds(job, snapshot) if possible(job, kind, snapshot)]
        assert paid == min(price(kind) for kind in here)


@few
@given(snapshot=lone)
def test_a_merge_is_asked_for_exactly_when_only_idle_slices_are_in_the_way(snapshot):
    (job,) = snapshot.jobs
    reasons = [hold.reason.code for hold in plan_of(snapshot).deferrals]
    if can(job, snapshot):
        assert reasons == []
    elif can(job, without_idle(snapshot)):
        assert reasons == [ReasonCode.REPARTITION]
    else:
        assert reasons[0] is not ReasonCode.REPARTITION


@few
@given(snapshot=lone)
def test_a_job_can_never_run_exactly_when_the_empty_cluster_could_not_take_it(snapshot):
    (job,) = snapshot.jobs
    assert (infeasible_reason(job, snapshot) is None) == can(job, emptied(snapshot))
