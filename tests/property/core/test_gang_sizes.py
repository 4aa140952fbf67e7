"""Gangs of several sizes on random clusters: an allowed size or none, the largest that is free, and
never at the cost of anybody's least size."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.property.core.plan_effects import carried_out
from tests.property.core.worlds import worlds
from tests.support.examples import examples
from tests.support.snapshots import plan_of

many = examples(100)
STEPS = st.sampled_from([(), (1,), (1, 2, 3), (2, 5), (4,)])


@st.composite
def elastic_worlds(draw, **options):
    """Some of their jobs may start with more replicas than their least number."""
    snapshot = draw(worlds(**options))
    return replace(snapshot, jobs=tuple(elastic(job, draw(STEPS)) for job in snapshot.jobs))


def elastic(job, steps):
    sizes = (job.replicas, *(job.replicas + step for step in steps)) if steps else ()
    return replace(job, sizes=sizes)


@many
@given(snapshot=elastic_worlds())
def test_a_gang_has_an_allowed_size_and_the_ledger_is_exact(snapshot):
    plan = plan_of(snapshot)
    jobs = {job.id: job for job in snapshot.jobs}
    for place in plan.placements:
        job, size = jobs[place.job], len(place.replicas)
        assert size in (job.sizes or (job.replicas,))
        assert [replica.rank for replica in place.replicas] == list(range(size))
        assert {len(r.devices) for r in place.replicas} == {max(1, job.device.gpus)}
    before = {node.id: node.disk_free_mib for node in snapshot.nodes}
    after = carried_out(snapshot, plan.placements)
    for node in after.nodes:
        assert node.cpu_free_milli >= 0 and node.memory_free_mib >= 0
        assert node.disk_free_mib >= min(0, before[node.id])
    used = {(quota.project, quota.user): quota.used_units for quota in snapshot.quotas}
    for quota in after.quotas:
        assert quota.used_units <= max(quota.limit_units, used[quota.project, quota.user])


@many
@given(snapshot=elastic_worlds(max_jobs=1))
def test_it_starts_where_its_least_size_would_with_the_most_that_are_free(snapshot):
    for job in snapshot.jobs:
        chosen = {len(p.replicas) for p in plan_of(snapshot).placements}
        starts = [
            size
            for size in job.sizes or (job.replicas,)
            if plan_of(fixed(snapshot, size)).placements
        ]
        least = starts[:1] == [job.replicas]
        assert chosen == ({max(starts)} if least else set()), (chosen, starts)


def fixed(snapshot, size):
    """Its jobs with this one size."""
    return replace(snapshot, jobs=tuple(replace(j, replicas=size, sizes=()) for j in snapshot.jobs))


@many
@given(snapshot=elastic_worlds())
def test_unless_one_starts_larger_the_plan_is_that_of_the_least_sizes(snapshot):
    """Also what is reserved, reclaimed or stopped, and why who waits."""
    plan = plan_of(snapshot)
    least = {job.id: job.replicas for job in snapshot.jobs}
    if all(len(place.replicas) == least[place.job] for place in plan.placements):
        plain = tuple(replace(job, sizes=()) for job in snapshot.jobs)
        assert plan == plan_of(replace(snapshot, jobs=plain))
