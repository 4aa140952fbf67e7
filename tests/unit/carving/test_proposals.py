"""What is prepared before it is asked for, and what is never touched."""

from dataclasses import replace

from agents.contract.documents import GpuMode
from scheduler.core.carving.proposals import propose_changes
from scheduler.core.model.snapshot import Demand, DemandMix, DeviceRequest
from tests.support.snapshots import NOW, a_cluster, a_gpu, a_node, a_slice, away, idle


def mix_of(*nodes, **profiles):
    """A cluster whose mix asks for profiles by count: `_1g_18gb=9` is nine 1g.18gb."""
    demands = tuple(
        Demand(DeviceRequest(mig=name[1:].replace("_", ".")), 1_000, 1_024, count)
        for name, count in profiles.items()
    )
    return replace(a_cluster(*nodes), mix=DemandMix(demands))


def test_slices_that_the_mix_will_want_are_carved_on_idle_slots():
    found = propose_changes(mix_of(a_node(a_gpu(a_slice("4g.71gb", 0))), _1g_18gb=9))
    assert {carve.profile for carve in found.carves} == {"1g.18gb"}
    assert {carve.start for carve in found.carves} <= {4, 5, 6}
    assert "1g.18gb" in found.carves[0].message.text
    assert not found.merges


def test_no_more_is_kept_warm_than_the_next_requests_will_probably_want():
    rare = propose_changes(mix_of(a_node(a_gpu(a_slice("1g.18gb", 6))), _2g_35gb=1, _1g_18gb=99))
    assert "2g.35gb" not in {carve.profile for carve in rare.carves}
    warm = a_gpu(*(idle("1g.18gb", i) for i in range(6)), a_slice("1g.18gb", 6))
    assert not propose_changes(mix_of(a_node(warm), _1g_18gb=5, _7g_141gb=5)).carves


def test_nothing_is_prepared_where_nothing_is_known():
    nodes = a_node(a_gpu(a_slice("1g.18gb", 0), idle("2g.35gb", 2)), a_gpu(mode=GpuMode.MIG))
    found = propose_changes(a_cluster(nodes))
    assert (found.carves, found.merges, found.modes) == ((), (), ())


def test_idle_slices_that_nobody_wants_are_deleted_in_one_batch():
    gpu = a_gpu(idle("2g.35gb", 0), idle("2g.35gb", 2), a_slice("1g.18gb", 4))
    found = propose_changes(mix_of(a_node(gpu), _4g_71gb=9))
    (merge,) = found.merges
    assert merge.slices == ("n1/0/2g.35gb@0", "n1/0/2g.35gb@2")
    assert "100% of the expected requests" in merge.message.text
    assert found.gpu_sentences() == (("n1/0", merge.message.text),)
    assert not found.carves


def test_idle_slices_that_are_in_nobodys_way_stay():
    gpu = a_gpu(idle("2g.35gb", 4), a_slice("1g.18gb", 6))
    assert not propose_changes(mix_of(a_node(gpu), _4g_71gb=9)).merges


def test_nothing_is_proposed_for_a_gpu_that_is_pinned_settling_ill_or_away():
    gpu = a_gpu(idle("2g.35gb", 0), a_slice("1g.18gb", 4))
    wanted = {"_4g_71gb": 5, "_1g_18gb": 5}
    assert propose_changes(mix_of(a_node(gpu), **wanted)).merges
    kept = [
        a_node(replace(gpu, pinned=True)),
        a_node(replace(gpu, settles_at=NOW + 1)),
        a_node(replace(gpu, healthy=False)),
        away(gpu),
    ]
    for node in kept:
        found = propose_changes(mix_of(node, **wanted))
        assert (found.carves, found.merges, found.modes) == ((), (), ())
    assert propose_changes(mix_of(a_node(replace(gpu, settles_at=NOW)), **wanted)).merges


def test_an_empty_gpu_changes_its_mode_where_the_mix_wants_another():
    found = propose_changes(mix_of(a_node(a_gpu(mode=GpuMode.WHOLE)), _1g_18gb=9))
    assert [(change.gpu, change.mode) for change in found.modes] == [("n1/0", GpuMode.MIG)]
    assert "GPU 0 is empty" in found.modes[0].message.text


def test_a_mode_is_kept_where_it_is_wanted_or_something_is_on_the_gpu():
    for gpu in (a_gpu(mode=GpuMode.MIG), a_gpu(a_slice("")), a_gpu(idle(""))):
        assert not propose_changes(mix_of(a_node(gpu), _1g_18gb=9)).modes
    whole = DemandMix((Demand(DeviceRequest(gpus=1), 1_000, 1_024, 9),))
    assert not propose_changes(replace(a_cluster(a_node(a_gpu())), mix=whole)).modes


def test_an_idle_slice_is_not_deleted_and_made_again_as_its_share_goes_up_and_down():
    """2g.35gb is asked for a little more, then a little less than is worth making one."""
    more, less = {"_4g_71gb": 32, "_2g_35gb": 1}, {"_4g_71gb": 70, "_2g_35gb": 1}
    beside = a_gpu(a_slice("1g.18gb", 0), a_slice("3g.71gb", 4))
    made = propose_changes(mix_of(a_node(beside), **more)).carves
    assert [(carve.profile, carve.start) for carve in made] == [("2g.35gb", 2)]
    in_the_way = a_gpu(idle("2g.35gb", 2), mode=GpuMode.MIG)
    assert not propose_changes(mix_of(a_node(in_the_way), **less)).merges
    gone = propose_changes(mix_of(a_node(in_the_way), _4g_71gb=200, _2g_35gb=1)).merges
    assert [merge.slices for merge in gone] == [("n1/0/2g.35gb@2",)]
