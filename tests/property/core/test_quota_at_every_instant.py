"""Whoever is stopped for whom: no pass exceeds a quota, counting those that still stop."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.decisions import PreemptionCause
from scheduler.core.model.policy import Policy, PreemptionMode, QuotaPreemption
from scheduler.core.model.snapshot import PRIORITY_RANK
from scheduler.core.plan import plan
from tests.support.examples import examples
from tests.support.quota_worlds import in_units, quota_worlds, size_of
from tests.support.snapshots import as_bytes, plan_of

many = examples(60)
SCOPES = st.sampled_from(list(QuotaPreemption))


def policy(scope):
    return Policy(quota_preemption=scope, protection_seconds=100)


@many
@given(world=quota_worlds(), scope=SCOPES)
def test_no_pass_takes_a_quota_beyond_its_limit_while_its_victims_still_stop(world, scope):
    for _, snapshot, found in world.play(policy(scope)).passes:
        jobs = {job.id: job for job in snapshot.jobs}
        for quota in snapshot.quotas:
            started = [
                jobs[place.job]
                for place in found.placements
                if jobs[place.job].project == quota.project
                and quota.user in ("", jobs[place.job].user)
            ]
            after = quota.used_units + in_units(sum(map(size_of, started)))
            assert after <= quota.limit_units


@many
@given(world=quota_worlds(), scope=SCOPES)
def test_who_stops_for_quota_shares_it_is_less_urgent_and_stops_once(world, scope):
    world.play(policy(scope))
    for _, snapshot, found in world.passes:
        running = {run.job.id: run for run in snapshot.running}
        jobs = {job.id: job for job in snapshot.jobs}
        for stop in found.preemptions:
            victim = running[stop.job]
            assert victim.job.preemptible
            assert not victim.stopping
            if stop.cause is PreemptionCause.QUOTA:
                job = jobs[stop.for_job]
                assert victim.job.project == job.project
                assert PRIORITY_RANK[victim.job.priority] > PRIORITY_RANK[job.priority]
                assert scope is not QuotaPreemption.OFF
                assert scope is QuotaPreemption.PROJECT or victim.job.user == job.user
    assert not world.coming


@many
@given(world=quota_worlds())
def test_none_of_those_that_stop_for_quota_would_have_been_spared(world):
    """Without one of them, the job would not have its place once the others are gone."""
    for now, snapshot, found in world.play(policy(QuotaPreemption.OWNER)).passes:
        stops = [stop for stop in found.preemptions if stop.cause is PreemptionCause.QUOTA]
        for_jobs = {stop.for_job for stop in found.preemptions}
        if not stops or len(for_jobs) != 1 or found.placements:
            continue
        (job,) = (job for job in snapshot.jobs if job.id in for_jobs)
        for spared in stops:
            others = [stop.job for stop in found.preemptions if stop is not spared]
            fewer = _without(snapshot, {*others, *_stopping(snapshot)})
            alone = replace(fewer, now=now, jobs=(job,))
            assert not plan_of(alone, preemption=PreemptionMode.OFF).placements


@many
@given(world=quota_worlds())
def test_the_same_world_gives_the_same_bytes_however_it_is_listed(world):
    for _, snapshot, found in world.play(policy(QuotaPreemption.PROJECT)).passes:
        mirrored = replace(
            snapshot,
            jobs=snapshot.jobs[::-1],
            running=snapshot.running[::-1],
            quotas=snapshot.quotas[::-1],
        )
        again = plan(mirrored, policy(QuotaPreemption.PROJECT))
        assert as_bytes(again) == as_bytes(found)


def _stopping(snapshot):
    return {run.job.id for run in snapshot.running if run.stopping}


def _without(snapshot, gone):
    """The cluster when these have ended."""
    slices = {
        d.slice
        for run in snapshot.running
        if run.job.id in gone
        for r in run.replicas
        for d in r.devices
    }
    units = {}
    for run in snapshot.running:
        if run.job.id in gone:
            for owner in ((run.job.project, ""), (run.job.project, run.job.user)):
                units[owner] = units.get(owner, 0) + in_units(size_of(run.job))
    nodes = tuple(
        replace(
            node,
            gpus=tuple(
                replace(g, slices=tuple(s for s in g.slices if s.id not in slices))
                for g in node.gpus
            ),
        )
        for node in snapshot.nodes
    )
    return replace(
        snapshot,
        nodes=nodes,
        running=tuple(run for run in snapshot.running if run.job.id not in gone),
        quotas=tuple(
            replace(q, used_units=q.used_units - units.get((q.project, q.user), 0))
            for q in snapshot.quotas
        ),
    )
