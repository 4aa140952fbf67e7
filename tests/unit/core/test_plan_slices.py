"""Where a slice comes from: an idle one first, then a place that leaves most room, then a merge."""

from agents.contract.boards import known_boards
from agents.contract.documents import GpuMode
from agents.contract.geometry import Placement, free_placements
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import Priority, Topology
from tests.support.snapshots import (
    A30,
    H200,
    L40S,
    a_cluster,
    a_gpu,
    a_job,
    a_node,
    a_slice,
    devices,
    idle,
    placed,
    plan_of,
    reason,
)


def one(job, *gpus):
    return plan_of(a_cluster(a_node(*gpus), jobs=[job]))


def still_fits(found, profile, board=H200):
    """Whether `profile` can be made beside what the plan puts on an empty GPU."""
    known = known_boards()[board]
    taken = [
        Placement(d.start, d.size, d.profile)
        for place in found.placements
        for replica in place.replicas
        for d in replica.devices
    ]
    return bool(free_placements(known, known.profile(profile), taken))


def test_a_slice_is_made_on_demand_on_an_empty_gpu():
    found = one(a_job(mig="2g.35gb"), a_gpu())
    ((gpu, profile, start),) = devices(found)
    assert (gpu, profile) == ("n1/0", "2g.35gb")
    assert start in (0, 2, 4)
    (device,) = found.placements[0].replicas[0].devices
    assert (device.slice, device.size, device.units) == ("", 2, 16_000)


def test_an_idle_ready_slice_is_taken_before_a_new_one_is_made():
    partly = a_gpu(a_slice("1g.18gb", 6))
    found = one(a_job(mig="2g.35gb"), partly, a_gpu(idle("2g.35gb", 2)))
    (device,) = found.placements[0].replicas[0].devices
    assert (device.gpu, device.slice) == ("n1/1", "n1/1/2g.35gb@2")
    assert "1 ready" in found.placements[0].sentence


def test_an_idle_slice_that_is_not_ready_is_left_alone():
    found = one(a_job(), a_gpu(idle("2g.35gb", 0, ready=False)))
    (device,) = found.placements[0].replicas[0].devices
    assert device.slice == ""
    assert device.start in (2, 4)


def test_an_idle_slice_of_another_profile_is_never_given():
    found = one(a_job(mig="1g.35gb"), a_gpu(idle("2g.35gb", 0)))
    assert found.placements[0].replicas[0].devices[0].slice == ""


def test_one_idle_slice_serves_one_job_of_a_pass():
    gpu = a_gpu(idle("2g.35gb", 0), a_slice("3g.71gb", 4))
    found = plan_of(a_cluster(a_node(gpu), jobs=[a_job("1"), a_job("2"), a_job("3")]))
    taken = [d for job in placed(found) for d in devices(found, job)]
    assert len(taken) == len(set(taken)) == 2


def test_a_gpu_that_is_carved_already_is_filled_before_an_empty_one_is_touched():
    found = one(a_job(mig="1g.18gb"), a_gpu(), a_gpu(a_slice("4g.71gb", 0)), a_gpu())
    ((gpu, _, _),) = devices(found)
    assert gpu == "n1/1"


def test_a_node_that_is_full_is_filled_before_an_empty_one_is_touched():
    full = a_node(a_gpu(a_slice("4g.71gb", 0)), name="z")
    found = plan_of(a_cluster(a_node(a_gpu(), name="a"), full, jobs=[a_job()]))
    assert devices(found)[0][0] == "z/0"


def test_small_slices_leave_the_largest_place_free():
    assert still_fits(one(a_job(mig="1g.18gb"), a_gpu()), "4g.71gb")
    assert still_fits(one(a_job(mig="3g.71gb"), a_gpu()), "4g.71gb")
    three = a_cluster(a_node(a_gpu()), jobs=[a_job(str(i), mig="1g.18gb") for i in range(3)])
    assert still_fits(plan_of(three), "4g.71gb")


def test_all_seven_slices_of_a_board_can_be_given_in_one_pass_and_no_eighth():
    jobs = [a_job(str(i), mig="1g.18gb") for i in range(1, 9)]
    found = plan_of(a_cluster(a_node(a_gpu()), jobs=jobs))
    assert placed(found) == [str(i) for i in range(1, 8)]


def test_extended_profiles_are_given_only_to_those_who_name_them():
    found = one(a_job(mig="1g.18gb+me"), a_gpu())
    assert devices(found)[0][1] == "1g.18gb+me"
    for mib in (1, 16_000, 30_000, 70_000, 140_000):
        assert "+" not in devices(one(a_job(device_mib=mib), a_gpu()))[0][1]
    only = a_gpu(idle("1g.18gb+me", 6), a_slice("4g.71gb", 0), a_slice("2g.35gb", 4))
    assert not one(a_job(device_mib=16_000), only).placements


def test_an_amount_of_memory_gets_the_cheapest_device_that_has_it():
    h200, a30 = a_gpu(), a_gpu(board=A30)
    assert devices(one(a_job(device_mib=16_000), h200, a30))[0][1] == "1g.18gb"
    assert devices(one(a_job(device_mib=5_000), a30))[0][1] == "1g.6gb"
    assert devices(one(a_job(device_mib=40_000), h200, a_gpu(board=L40S)))[0][1] == "3g.71gb"
    assert devices(one(a_job(device_mib=40_000), a_gpu(board=L40S)))[0] == ("n1/0", "", 0)


def test_a_model_narrows_the_choice():
    gpus = (a_gpu(), a_gpu(board=A30), a_gpu(board=L40S))
    for models, gpu in ((("A30",), "n1/1"), (("L40S-48GB",), "n1/2"), (("H200", "GB200"), "n1/0")):
        found = one(a_job(device_mib=5_000, models=models), *gpus)
        assert devices(found)[0][0] == gpu


def test_nothing_is_carved_on_a_gpu_that_is_held_whole():
    found = one(a_job(), a_gpu(a_slice("")))
    assert reason(found).code is ReasonCode.RESOURCES


def test_idle_slices_that_are_in_the_way_are_merged_and_the_job_waits_one_pass():
    gpu = a_gpu(idle("1g.18gb", 0), idle("1g.18gb", 5), a_slice("1g.18gb", 6))
    found = one(a_job(mig="4g.71gb"), gpu)
    assert reason(found).code is ReasonCode.REPARTITION
    assert [(m.gpu, m.slices, m.for_job) for m in found.merges] == [
        ("n1/0", ("n1/0/1g.18gb@0",), "1")
    ]


def test_a_merge_takes_neither_what_is_held_nor_what_is_in_nobodys_way():
    gpu = a_gpu(idle("1g.18gb", 0), a_slice("1g.18gb", 1), idle("2g.35gb", 4))
    found = one(a_job(mig="4g.71gb"), gpu)
    assert not found.merges
    assert reason(found).code is ReasonCode.FRAGMENTATION
    found = one(a_job(mig="2g.35gb"), gpu)
    assert (devices(found)[0][:2], found.merges) == (("n1/0", "2g.35gb"), ())


def test_room_that_is_being_merged_is_promised_to_its_job():
    gpu = a_gpu(idle("1g.18gb", 0), a_slice("3g.71gb", 4))
    jobs = [a_job("1", mig="4g.71gb", priority=Priority.HIGH), a_job("2", mig="1g.18gb")]
    found = plan_of(a_cluster(a_node(gpu), jobs=jobs))
    assert not found.placements
    assert [m.for_job for m in found.merges] == ["1"]


def test_nobody_starts_where_a_merged_slice_still_is():
    """The second job waits for the first one's merge, too; it asks for no merge of its own."""
    whole = idle("7g.141gb", 0)
    for second in ({"mig": "1g.18gb"}, {"gpus": 1}):
        jobs = [a_job("1", mig="1g.18gb"), a_job("2", **second)]
        found = plan_of(a_cluster(a_node(a_gpu(whole)), jobs=jobs))
        assert not found.placements
        assert [(m.slices, m.for_job) for m in found.merges] == [(("n1/0/7g.141gb@0",), "1")]
        assert reason(found, "1").code is ReasonCode.REPARTITION


def test_a_whole_gpu_that_is_being_given_back_is_waited_for():
    for gone in (idle("", 0, ready=False), idle("", 0)):
        jobs = [a_job("1", mig="1g.18gb"), a_job("2", mig="2g.35gb")]
        found = plan_of(a_cluster(a_node(a_gpu(gone)), jobs=jobs))
        assert not found.placements
        assert {reason(found, job.id).code for job in jobs} == {ReasonCode.REPARTITION}


def test_each_of_two_equal_jobs_gets_a_merge_of_its_own():
    gpus = [a_gpu(idle("7g.141gb", 0))] * 2
    jobs = [a_job(str(i), mig="4g.71gb") for i in (1, 2, 3)]
    found = plan_of(a_cluster(a_node(*gpus), jobs=jobs))
    assert [(m.gpu, m.for_job) for m in found.merges] == [("n1/0", "1"), ("n1/1", "2")]
    codes = [reason(found, job.id).code for job in jobs]
    assert codes == [ReasonCode.REPARTITION, ReasonCode.REPARTITION, ReasonCode.RESOURCES]


def test_slices_on_their_way_out_are_waited_for_and_not_deleted_again():
    found = one(a_job(mig="7g.141gb"), a_gpu(idle("1g.18gb", 0, ready=False)))
    assert reason(found).code is ReasonCode.REPARTITION
    assert not found.merges


def test_a_policy_without_merges_keeps_idle_slices():
    snapshot = a_cluster(a_node(a_gpu(idle("1g.18gb", 0))), jobs=[a_job(mig="7g.141gb")])
    assert plan_of(snapshot).merges
    kept = plan_of(snapshot, merge=False)
    assert not kept.merges
    assert reason(kept).code is not ReasonCode.REPARTITION


def test_a_gang_of_slices_starts_on_one_gpu_that_was_never_carved():
    for mode in (GpuMode.WHOLE, GpuMode.MIG):
        found = one(a_job(mig="2g.35gb", replicas=3, topology=Topology.SAME_NODE), a_gpu(mode=mode))
        assert sorted(start for _, _, start in devices(found)) == [0, 2, 4]


def test_jobs_of_one_pass_share_a_gpu_that_the_first_of_them_opens():
    jobs = [a_job("1", mig="1g.18gb"), a_job("2", mig="1g.18gb"), a_job("3", gpus=1)]
    found = plan_of(a_cluster(a_node(a_gpu(), a_gpu()), jobs=jobs))
    assert placed(found) == ["1", "2", "3"]


def test_an_empty_gpu_in_either_mode_can_be_carved_or_given_whole():
    for mode in (GpuMode.WHOLE, GpuMode.MIG):
        assert devices(one(a_job(), a_gpu(mode=mode)))
        assert devices(one(a_job(gpus=1), a_gpu(mode=mode))) == [("n1/0", "", 0)]
