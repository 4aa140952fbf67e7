"""Whatever the world: a plan spends nothing twice, keeps every rule, and forgets nobody.

The rules are checked on the world after the plan, by counting; the planner's ledger is not asked.
"""

from collections import Counter

from hypothesis import given

from agents.contract.boards import known_boards
from agents.contract.documents import SliceKind
from agents.contract.geometry import Placement, is_legal
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import SINGLE_NODE
from tests.property.core.cp_sat_oracle import may_run
from tests.property.core.plan_effects import carried_out, when_gone
from tests.property.core.worlds import worlds
from tests.support.examples import examples
from tests.support.snapshots import as_bytes, illegal_reason, plan_of

many = examples(100)


def placed_with_jobs(snapshot, plan):
    jobs = {job.id: job for job in snapshot.jobs}
    return [(jobs[place.job], place) for place in plan.placements]


def devices_of(place):
    return [device for replica in place.replicas for device in replica.devices]


@many
@given(snapshot=worlds())
def test_no_memory_slice_is_given_twice_and_every_layout_stays_legal(snapshot):
    plan = plan_of(snapshot)
    for node in carried_out(snapshot, plan.placements).nodes:
        for gpu in node.gpus:
            whole = [s for s in gpu.slices if s.kind is SliceKind.GPU]
            assert not whole or len(gpu.slices) == 1, "a whole GPU is shared with nothing"
            carved = [s for s in gpu.slices if s.kind is SliceKind.MIG]
            shares = [s for s in gpu.slices if s.kind is SliceKind.MPS]
            assert not (carved and shares), "a shared GPU is not carved"
            layout = [Placement(s.start, s.size, s.profile) for s in carved]
            assert is_legal(known_boards()[gpu.board], layout)


@many
@given(snapshot=worlds())
def test_shares_of_a_gpu_are_of_one_project_and_together_never_more_than_the_gpu(snapshot):
    plan = plan_of(snapshot)
    for node in carried_out(snapshot, plan.placements).nodes:
        before = next(n for n in snapshot.nodes if n.id == node.id)
        for gpu, old in zip(node.gpus, before.gpus, strict=True):
            shares = [s for s in gpu.slices if s.kind is SliceKind.MPS]
            if len(shares) == sum(s.kind is SliceKind.MPS for s in old.slices):
                continue
            assert len({s.project for s in shares}) == 1
            assert len(shares) == len(gpu.slices)
            assert sum(s.threads for s in shares) <= 100
            assert sum(s.memory_mib for s in shares) <= known_boards()[gpu.board].memory_mib
            assert sum(s.clients for s in shares) <= node.share_clients


@many
@given(snapshot=worlds())
def test_only_usable_nodes_and_healthy_gpus_are_given_and_idle_slices_only_once(snapshot):
    plan = plan_of(snapshot)
    nodes = {node.id: node for node in snapshot.nodes}
    asked = {job.id: job for job in snapshot.jobs}
    views = {s.id: s for node in snapshot.nodes for gpu in node.gpus for s in gpu.slices}
    reused = []
    for place in plan.placements:
        for replica in place.replicas:
            node = nodes[replica.node]
            assert node.available
            assert may_run(asked[place.job], node)
            own = {gpu.id: gpu for gpu in node.gpus}
            assert all(own[device.gpu].healthy for device in replica.devices)
        reused += [(d.slice, d.profile, d.start) for d in devices_of(place) if d.slice]
    assert len(reused) == len(set(reused))
    for key, profile, start in reused:
        seen = views[key]
        assert (seen.allocated, seen.ready, seen.profile, seen.start) == (
            False,
            True,
            profile,
            start,
        )


@many
@given(snapshot=worlds())
def test_no_node_gives_more_cpu_memory_or_disk_than_it_has_free(snapshot):
    before = {node.id: node.disk_free_mib for node in snapshot.nodes}
    for node in carried_out(snapshot, plan_of(snapshot).placements).nodes:
        assert node.cpu_free_milli >= 0
        assert node.memory_free_mib >= 0
        assert node.disk_free_mib >= min(0, before[node.id])


@many
@given(snapshot=worlds())
def test_a_quota_is_never_exceeded_and_one_that_is_already_gets_nothing(snapshot):
    before = {(q.project, q.user): q.used_units for q in snapshot.quotas}
    for quota in carried_out(snapshot, plan_of(snapshot).placements).quotas:
        used = before[quota.project, quota.user]
        assert quota.used_units <= max(quota.limit_units, used)


@many
@given(snapshot=worlds())
def test_a_placed_gang_is_whole_alike_and_as_near_as_it_asked(snapshot):
    boards_of = {gpu.id: gpu.board for node in snapshot.nodes for gpu in node.gpus}
    fabrics = {node.id: node.fabric for node in snapshot.nodes}
    for job, place in placed_with_jobs(snapshot, plan_of(snapshot)):
        assert [replica.rank for replica in place.replicas] == list(range(job.replicas))
        assert len({fabrics[replica.node] for replica in place.replicas}) == 1
        if job.topology in SINGLE_NODE:
            assert len({replica.node for replica in place.replicas}) == 1
        assert len({(boards_of[d.gpu], d.kind, d.profile) for d in devices_of(place)}) == 1
        for replica in place.replicas:
            assert len({d.gpu for d in replica.devices}) == len(replica.devices)
            assert len(replica.devices) == max(1, job.device.gpus)


@many
@given(snapshot=worlds())
def test_every_replica_gets_what_it_asked_for(snapshot):
    for job, place in placed_with_jobs(snapshot, plan_of(snapshot)):
        for device in devices_of(place):
            if job.device.gpus:
                assert device.kind is SliceKind.GPU
            if job.device.mig:
                assert device.profile == job.device.mig
            assert device.memory_mib >= job.device.memory_mib


@many
@given(snapshot=worlds())
def test_every_job_is_placed_or_held_once_and_merges_are_for_jobs_that_wait_for_them(snapshot):
    plan = plan_of(snapshot)
    named = [place.job for place in plan.placements] + [hold.job for hold in plan.deferrals]
    assert sorted(named) == sorted(job.id for job in snapshot.jobs)
    assert [hold.position for hold in plan.deferrals] == list(range(1, len(plan.deferrals) + 1))
    waiting = {h.job for h in plan.deferrals if h.reason.code is ReasonCode.REPARTITION}
    assert {merge.for_job for merge in plan.merges} <= waiting
    assert all(hold.reason.sentence for hold in plan.deferrals)


@many
@given(snapshot=worlds())
def test_only_idle_ready_slices_are_merged_each_once_and_none_that_is_given(snapshot):
    plan = plan_of(snapshot)
    views = {s.id: (gpu, s) for n in snapshot.nodes for gpu in n.gpus for s in gpu.slices}
    merged = [(merge.gpu, key) for merge in plan.merges for key in merge.slices]
    assert len(merged) == len(set(merged))
    given_away = {d.slice for place in plan.placements for d in devices_of(place)}
    for gpu_id, key in merged:
        gpu, seen = views[key]
        assert gpu.id == gpu_id
        assert seen.ready and not seen.allocated
        assert key not in given_away


@many
@given(snapshot=worlds())
def test_each_place_is_legal_for_the_committer_when_its_turn_comes(snapshot):
    plan = plan_of(snapshot)
    for count, (job, place) in enumerate(placed_with_jobs(snapshot, plan)):
        world = carried_out(snapshot, plan.placements[:count])
        assert illegal_reason(place, job, world) is None
        if all(device.kind is not SliceKind.MPS for device in devices_of(place)):
            assert illegal_reason(place, job, carried_out(world, [place])) is not None, (
                "it is taken now"
            )


@many
@given(snapshot=worlds())
def test_a_second_pass_finds_nothing_that_the_first_overlooked(snapshot):
    plan = plan_of(snapshot, merge=False)
    again = plan_of(carried_out(snapshot, plan.placements), merge=False)
    assert not again.placements
    assert Counter(h.job for h in again.deferrals) == Counter(h.job for h in plan.deferrals)


@many
@given(snapshot=worlds(max_jobs=1, with_quotas=False))
def test_a_job_that_waits_for_a_merge_starts_when_the_merge_is_done(snapshot):
    plan = plan_of(snapshot)
    waiting = [h.job for h in plan.deferrals if h.reason.code is ReasonCode.REPARTITION]
    gone = {key for merge in plan.merges for key in merge.slices}
    again = plan_of(when_gone(snapshot, gone))
    assert [place.job for place in again.placements] == waiting + [p.job for p in plan.placements]


@many
@given(snapshot=worlds())
def test_the_same_world_gives_the_same_bytes(snapshot):
    mirrored = type(snapshot)(
        now=snapshot.now,
        nodes=snapshot.nodes[::-1],
        jobs=snapshot.jobs[::-1],
        quotas=snapshot.quotas[::-1],
    )
    assert as_bytes(plan_of(mirrored)) == as_bytes(plan_of(snapshot))
