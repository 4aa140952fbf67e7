"""How the planner uses the values: where it carves, when a ready slice wins, what stays."""

from dataclasses import replace

from scheduler.core.model.policy import Policy
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import Demand, DemandMix, DeviceRequest
from scheduler.core.pass_cache import PassCache
from scheduler.core.plan import plan
from tests.support.snapshots import (
    NOW,
    a_cluster,
    a_gpu,
    a_job,
    a_node,
    a_slice,
    devices,
    idle,
    plan_of,
    reason,
)

UNKNOWN = DemandMix()


def one(job, *gpus, mix=UNKNOWN):
    return plan_of(replace(a_cluster(a_node(*gpus), jobs=[job]), mix=mix))


def test_a_ready_slice_wins_where_it_costs_no_more_room():
    gpus = (a_gpu(a_slice("4g.71gb", 0)), a_gpu(a_slice("4g.71gb", 0), idle("2g.35gb", 4)))
    found = one(a_job(mig="2g.35gb"), *gpus)
    assert found.placements[0].replicas[0].devices[0].slice == "n1/1/2g.35gb@4"


def test_a_ready_slice_that_blocks_a_whole_gpu_loses_to_a_hole_on_a_full_one():
    full = a_gpu(a_slice("4g.71gb", 0), a_slice("1g.18gb", 6))
    wanted = [DeviceRequest(mig="1g.18gb"), DeviceRequest(gpus=1)]
    mix = DemandMix(tuple(Demand(device, 1_000, 1_024, 10) for device in wanted))
    found = one(a_job(mig="1g.18gb"), full, a_gpu(idle("1g.18gb", 0)), mix=mix)
    assert devices(found)[0][:2] == ("n1/0", "1g.18gb")


def test_a_ready_slice_wins_where_nobody_knows_what_will_be_asked_for():
    full = a_gpu(a_slice("4g.71gb", 0), a_slice("1g.18gb", 6))
    found = one(a_job(mig="1g.18gb"), full, a_gpu(idle("1g.18gb", 0)))
    assert devices(found)[0][:2] == ("n1/1", "1g.18gb")


def test_a_planner_that_kept_its_ledger_takes_in_what_was_asked_for_since():
    full = a_gpu(a_slice("4g.71gb", 0), a_slice("1g.18gb", 6))
    wanted = [DeviceRequest(mig="1g.18gb"), DeviceRequest(gpus=1)]
    mix = DemandMix(tuple(Demand(device, 1_000, 1_024, 10) for device in wanted))
    nodes = (a_node(full, name="n1"), a_node(a_gpu(idle("1g.18gb", 0)), name="n2"))
    world, kept = a_cluster(*nodes, jobs=[a_job(mig="1g.18gb")]), PassCache()
    passes = [plan(replace(world, mix=each), Policy(), cache=kept) for each in (mix, UNKNOWN, mix)]
    assert [devices(found)[0][0] for found in passes] == ["n1/0", "n2/0", "n1/0"]


def test_the_mix_decides_which_hole_is_kept():
    """Beside 4g on one GPU and 3g on the other, 2g goes where the mix wants nothing larger."""
    gpus = (a_gpu(a_slice("4g.71gb", 0)), a_gpu(a_slice("3g.71gb", 4)))

    def chosen(profile):
        demands = (Demand(DeviceRequest(mig=profile), 1_000, 1_024, 9),)
        return devices(one(a_job(mig="2g.35gb"), *gpus, mix=DemandMix(demands)))[0][0]

    assert chosen("4g.71gb") == "n1/0"
    assert chosen("1g.18gb") == "n1/0"


def test_idle_slices_of_a_pinned_gpu_are_reused_but_nothing_is_carved_or_deleted_there():
    pinned = replace(a_gpu(idle("1g.18gb", 0), a_slice("1g.18gb", 6)), pinned=True)
    assert devices(one(a_job(mig="1g.18gb"), pinned)) == [("n1/0", "1g.18gb", 0)]
    assert not one(a_job(mig="2g.35gb"), pinned).placements
    for job in (a_job(mig="4g.71gb"), a_job(gpus=1)):
        found = one(job, pinned)
        assert (found.placements, found.merges) == ((), ())


def test_idle_slices_are_not_deleted_before_their_gpu_has_settled():
    gpu = a_gpu(idle("1g.18gb", 0))
    for job in (a_job(mig="4g.71gb"), a_job(gpus=1), a_job(mps=(25, 10_000))):
        settling = one(job, replace(gpu, settles_at=NOW + 1))
        assert (settling.placements, settling.merges) == ((), ())
        settled = one(job, replace(gpu, settles_at=NOW))
        assert reason(settled).code is ReasonCode.REPARTITION
        assert settled.merges


def test_idle_slots_of_a_settling_gpu_can_be_carved():
    gpu = replace(a_gpu(idle("1g.18gb", 0)), settles_at=NOW + 1)
    assert devices(one(a_job(mig="2g.35gb"), gpu))[0][:2] == ("n1/0", "2g.35gb")
