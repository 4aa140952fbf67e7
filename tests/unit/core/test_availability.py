"""What counts as free, recarvable, held, reserved or out: one GPU at a time."""

from dataclasses import replace

import pytest

from agents.contract.documents import SliceKind
from agents.contract.units import UNITS_PER_GPU
from scheduler.core.availability.cluster import cluster_availability
from scheduler.core.availability.counts import MPS_SHARE, WHOLE_GPU, Category, DeviceKind
from scheduler.core.forecast.runtime_model import RuntimeModel
from scheduler.core.model.decisions import DevicePlacement, ReplicaPlacement
from scheduler.core.model.policy import Policy
from scheduler.core.model.snapshot import Priority, RunningJob
from scheduler.core.queue_trial import QueueTrial
from tests.support.snapshots import (
    H200,
    NOW,
    a_cluster,
    a_gpu,
    a_job,
    a_node,
    a_share,
    a_slice,
    away,
    idle,
)

SEVENTH = UNITS_PER_GPU // 7


def of(*gpus, **fields):
    return cluster_availability(a_cluster(a_node(*gpus, **fields))).total


def mig(profile):
    return DeviceKind(SliceKind.MIG, profile)


def test_an_idle_slice_hides_nothing_that_the_queue_would_remake():
    found = of(a_gpu(idle("1g.18gb")))
    assert found.units == {Category.FREE: 6 * SEVENTH, Category.RECARVABLE: SEVENTH}
    assert (found.free_gpus, found.of(WHOLE_GPU).ready) == (1, 0)
    assert (found.of(mig("3g.71gb")).carvable, found.of(mig("3g.71gb")).recarvable) == (1, 1)
    assert (found.of(mig("1g.18gb")).ready, found.of(mig("1g.18gb")).available) == (1, 7)


def test_idle_slices_that_leave_no_place_are_recarvable_with_the_rest():
    found = of(a_gpu(a_slice("4g.71gb", 0), idle("1g.18gb", 4), idle("1g.18gb", 6)))
    assert found.of(mig("3g.71gb")).recarvable == 1
    assert found.units[Category.HELD] == 4 * SEVENTH
    assert found.units[Category.RECARVABLE] + found.units[Category.FREE] == 3 * SEVENTH


@pytest.mark.parametrize("fixed", [{"pinned": True}, {"settles_at": NOW + 1}])
def test_slices_that_must_stay_are_free_for_their_own_size_alone(fixed):
    found = of(replace(a_gpu(idle("3g.71gb", 0), idle("3g.71gb", 4)), **fixed))
    assert found.of(mig("3g.71gb")).ready == 2
    assert found.free_gpus == found.of(mig("1g.18gb")).available == 0
    assert found.units == {Category.FREE: UNITS_PER_GPU}


def test_a_policy_without_merges_remakes_nothing():
    cluster = a_cluster(a_node(a_gpu(idle("1g.18gb"))))
    found = cluster_availability(cluster, can_merge=False).total
    assert found.free_gpus == found.units[Category.RECARVABLE] == 0


def test_what_is_held_stays_held_where_nothing_more_may_start():
    held = a_gpu(a_slice("3g.71gb"))
    lost = cluster_availability(a_cluster(away(held))).total
    assert lost.units == {Category.HELD: 28_000, Category.NODE_UNAVAILABLE: 28_000}
    broken = of(replace(held, healthy=False))
    assert broken.units == {Category.HELD: 28_000, Category.OUT_OF_SERVICE: 28_000}
    assert (broken.in_service, broken.out_of_service, lost.on_unavailable_nodes) == (0, 1, 1)


def test_slices_that_cost_more_than_the_gpu_hold_all_of_it():
    found = of(a_gpu(a_slice("4g.71gb", 0), a_slice("3g.71gb", 4)))
    assert found.units == {Category.HELD: UNITS_PER_GPU}


def test_a_slice_that_is_still_being_made_is_not_ready():
    found = of(a_gpu(idle("1g.18gb", 0), idle("1g.18gb", 1, ready=False)))
    assert found.of(mig("1g.18gb")).ready == 1


def test_the_room_beside_shares_is_open_to_their_project_alone():
    found = cluster_availability(a_cluster(a_node(a_gpu(a_share(25, 10_000)), a_gpu())))
    assert found.total.units[Category.SHARED] == UNITS_PER_GPU * 3 // 4
    assert found.share_room == {("p", H200, "n1"): 1}
    assert found.total.of(MPS_SHARE).available == 1
    full = a_node(a_gpu(a_share(100, 10_000)))
    assert not cluster_availability(a_cluster(full)).share_room


def test_a_node_without_cpu_offers_nothing():
    found = of(a_gpu(), a_gpu(a_share()), cpu_free_milli=0)
    assert found.units[Category.UNUSABLE] == UNITS_PER_GPU
    assert not found.has_room


def after_a_pass(cluster):
    trial = QueueTrial(cluster, Policy(), RuntimeModel.from_snapshot(cluster))
    return cluster_availability(cluster, trial.places, trial.plan.merges).total


def test_what_the_pass_keeps_for_a_waiting_job_is_reserved():
    # The job gets the GPU once its idle slice is deleted.
    merging = after_a_pass(a_cluster(a_node(a_gpu(idle("1g.18gb"))), jobs=[a_job(gpus=1)]))
    assert merging.units == {Category.RESERVED: UNITS_PER_GPU}
    placed = after_a_pass(a_cluster(a_node(a_gpu(idle())), jobs=[a_job(mig="2g.35gb")]))
    assert placed.units == {Category.RESERVED: 2 * SEVENTH, Category.FREE: 5 * SEVENTH}
    assert placed.free_gpus == 0


def test_what_the_pass_makes_beside_a_held_slice_is_reserved():
    cluster = a_cluster(a_node(a_gpu(a_slice("2g.35gb", 0))), jobs=[a_job(mig="2g.35gb")])
    found = after_a_pass(cluster).units
    assert (found[Category.HELD], found[Category.RESERVED]) == (2 * SEVENTH, 2 * SEVENTH)


def test_beside_a_job_that_waits_until_a_gpu_is_cleared_the_rest_of_it_is_recarvable():
    """The GPU is no longer given whole: its slice is being removed."""
    leaving = idle("", ready=False)
    found = after_a_pass(a_cluster(a_node(a_gpu(leaving)), jobs=[a_job(mig="1g.18gb")]))
    assert found.units == {Category.RESERVED: SEVENTH, Category.RECARVABLE: 6 * SEVENTH}
    assert found.of(DeviceKind(SliceKind.MIG, "1g.18gb")).recarvable == 6


def test_a_job_that_waits_for_another_to_stop_reserves_what_is_free_already():
    low = a_job("low", gpus=1, priority=Priority.LOW, preemptible=True)
    device = DevicePlacement("n1/0", SliceKind.GPU, "", 0, 8, UNITS_PER_GPU, 0, slice="n1/0/gpu@0")
    running = RunningJob(low, (ReplicaPlacement(0, "n1", (device,)),), NOW - 86_400)
    node = a_node(a_gpu(a_slice("")), a_gpu())
    waiting = a_job("high", gpus=2, priority=Priority.HIGH)
    found = after_a_pass(a_cluster(node, jobs=[waiting], running=[running]))
    assert found.units == {Category.HELD: UNITS_PER_GPU, Category.RESERVED: UNITS_PER_GPU}
    assert not found.has_room
