"""What a pass does on its ledger is gone afterwards: kept ledgers, questions, and conservation."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.policy import BackfillMode, Policy
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import Demand, DemandMix, DeviceRequest
from scheduler.core.pass_cache import PassCache
from scheduler.core.placement.ledger import Ledger
from scheduler.core.plan import plan, plan_and_can_start
from tests.property.core.plan_effects import carried_out
from tests.property.core.worlds import worlds
from tests.support.examples import examples
from tests.support.queue_worlds import play
from tests.support.snapshots import as_bytes, plan_of
from tests.support.strategies import POLICIES, queues

some = examples(60)
DEVICES = st.sampled_from(
    [
        DeviceRequest(gpus=1),
        DeviceRequest(gpus=4),
        DeviceRequest(mig="1g.18gb"),
        DeviceRequest(mig="3g.71gb"),
        DeviceRequest(mig="2g.12gb"),
        DeviceRequest(mps_threads=30, mps_memory_mib=6_000),
    ]
)
DEMANDS = st.builds(
    Demand, DEVICES, st.sampled_from([500, 8_000]), st.just(4_096), st.integers(1, 500)
)
MIXES = st.builds(
    DemandMix, st.lists(DEMANDS, max_size=4).map(tuple), st.sampled_from([0.0, 0.4, 1.0])
)


def as_it_is(ledger):
    """All that a ledger says of what is free and held."""
    return [
        (
            node.view,
            node.cpu_free_milli,
            node.memory_free_mib,
            node.disk_free_mib,
            [(g.view, g.slices, g.reserved_slices, g.deleted_slices) for g in node.gpus],
            [gpu.view.id for gpu in node.open_gpus],
        )
        for node in ledger.nodes.values()
    ]


@some
@given(queue=queues(), policy=POLICIES)
def test_with_what_the_last_pass_kept_every_plan_is_the_same(queue, policy):
    kept = PassCache()
    for now, snapshot, found in play(*queue, **policy)[2]:
        again = plan(replace(snapshot, now=now), Policy(**policy), cache=kept)
        assert as_bytes(again) == as_bytes(found)


@some
@given(some_worlds=st.lists(worlds(), min_size=2, max_size=4), policy=POLICIES)
def test_one_kept_ledger_serves_other_clusters_and_slices_shares_and_quotas(some_worlds, policy):
    kept, policy = PassCache(), Policy(**policy)
    for world in some_worlds:
        first = plan(world, policy, cache=kept)
        after = carried_out(world, first.placements)
        for snapshot in (world, after):
            assert as_bytes(plan(snapshot, policy, cache=kept)) == as_bytes(plan(snapshot, policy))


@some
@given(world=worlds(), policy=POLICIES, mixes=st.lists(MIXES, min_size=2, max_size=4))
def test_one_kept_ledger_takes_in_every_mix_of_requests(world, policy, mixes):
    """While many jobs are submitted, the mix is another one every few seconds."""
    kept, policy = PassCache(), Policy(**policy)
    ledger, _ = kept.prepare(world)
    for mix in mixes:
        snapshot = replace(world, mix=mix)
        found = plan(snapshot, policy, cache=kept)
        assert as_bytes(found) == as_bytes(plan(snapshot, policy))
        world = carried_out(snapshot, found.placements)
        assert as_bytes(plan(world, policy, cache=kept)) == as_bytes(plan(world, policy))
    assert kept.prepare(world)[0] is ledger


@some
@given(world=worlds(), policy=POLICIES)
def test_a_ledger_that_follows_is_as_a_new_one(world, policy):
    kept = PassCache()
    first = plan(world, Policy(**policy), cache=kept)
    after = carried_out(world, first.placements)
    ledger, _ = kept.prepare(after)
    assert as_it_is(ledger) == as_it_is(Ledger(after))
    assert ledger.has_idle == Ledger(after).has_idle


@some
@given(queue=queues(), policy=POLICIES)
def test_what_is_held_and_what_is_free_are_together_all_that_there_is(queue, policy):
    for _, snapshot, found in play(*queue, **policy)[2]:
        every = {gpu.id for node in snapshot.nodes for gpu in node.gpus}
        held = {d.gpu for run in snapshot.running for r in run.replicas for d in r.devices}
        given_away = {d.gpu for p in found.placements for r in p.replicas for d in r.devices}
        after = carried_out(snapshot, found.placements)
        free = {gpu.id for node in after.nodes for gpu in node.gpus if not gpu.slices}
        assert sorted([*held, *given_away, *free]) == sorted(every)


@some
@given(world=worlds(), policy=POLICIES, gpus=st.integers(1, 2))
def test_questions_change_no_answer_and_ask_no_more_of_a_job_than_a_pass_does(world, policy, gpus):
    """Who could start finds a place in the world after the pass, where no promise holds it back."""
    policy = policy | {"merge": False}
    found, can_start = plan_and_can_start(world, Policy(**policy))
    assert as_bytes(found) == as_bytes(plan_of(world, **policy))
    held = {hold.job: hold.reason.code for hold in found.deferrals}
    waiting = [job for job in world.jobs if job.id in held]
    asked = [*waiting, *(replace(job, device=DeviceRequest(gpus=gpus)) for job in waiting)]
    answers = [can_start(job) for job in asked]
    assert [can_start(job) for job in asked[::-1]] == answers[::-1]
    after = carried_out(world, found.placements)
    for job, could in zip(asked, answers, strict=True):
        alone = plan_of(replace(after, jobs=(job,)), merge=False)
        if could:
            assert alone.placements
        elif policy["backfill"] is BackfillMode.SKIP and held[job.id] is not ReasonCode.REPARTITION:
            assert not alone.placements
