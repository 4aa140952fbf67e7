"""What a whole pass prepares beyond what its jobs need, and what a preview of it says."""

from dataclasses import replace

import pytest

from agents.contract.documents import GpuMode
from agents.contract.geometry import Placement, is_legal
from scheduler.core.carving_preview import plan_with_proposals
from scheduler.core.devices.options import gpu_board
from scheduler.core.model.policy import Policy
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import Demand, DemandMix, DeviceRequest, RunningJob
from tests.support.snapshots import (
    NOW,
    a_cluster,
    a_gpu,
    a_job,
    a_node,
    a_slice,
    away,
    devices,
    idle,
    placed,
    plan_of,
    reason,
)


def world(*gpus, jobs=(), running=(), **profiles):
    """A cluster of one node whose mix asks for profiles by count: `_1g_18gb=9`."""
    demands = tuple(
        Demand(DeviceRequest(mig=name[1:].replace("_", ".")), 1_000, 1_024, count)
        for name, count in profiles.items()
    )
    return replace(a_cluster(a_node(*gpus), jobs=jobs, running=running), mix=DemandMix(demands))


def preview(snapshot, policy, job=None):
    """What would be prepared under the policy, as the console shows it."""
    return plan_with_proposals(snapshot, policy, job)[1]


def half():
    """A GPU with a slice that somebody holds, and room beside it."""
    return a_gpu(a_slice("4g.71gb", 0))


def test_nothing_is_prepared_unless_the_policy_says_so():
    snapshot = world(half(), a_gpu(idle("2g.35gb", 0), a_slice("1g.18gb", 4)), _1g_18gb=9)
    assert not plan_of(snapshot).carves
    assert plan_of(snapshot, warm=True).carves
    blocked = world(a_gpu(idle("2g.35gb", 0), a_slice("1g.18gb", 4)), _4g_71gb=9)
    assert (plan_of(blocked).merges, plan_of(blocked, warm=True).carves) == ((), ())
    (merge,) = plan_of(blocked, warm=True).merges
    assert (merge.for_job, merge.slices) == ("", ("n1/0/2g.35gb@0",))
    assert not plan_of(blocked, warm=True, merge=False).merges


def test_warm_slices_are_legal_beside_what_is_there_and_say_why():
    gpu = half()
    found = plan_of(world(gpu, _1g_18gb=9), warm=True)
    made = [Placement(c.start, c.size, c.profile) for c in found.carves]
    assert is_legal(gpu_board(gpu), [Placement(0, 4, "4g.71gb"), *made])
    assert len(made) == 3
    assert all("1g.18gb" in carve.message.text for carve in found.carves)


def test_a_gpu_that_a_job_of_the_pass_gets_is_left_alone():
    snapshot = world(half(), half(), jobs=[a_job(mig="1g.18gb")], _1g_18gb=9)
    found = plan_of(snapshot, warm=True)
    assert devices(found)[0][0] == "n1/0"
    assert {carve.gpu for carve in found.carves} == {"n1/1"}


def test_the_jobs_of_a_pass_are_placed_as_they_would_be_without_it():
    jobs = [a_job(str(i), mig=name) for i, name in enumerate(("1g.18gb", "3g.71gb", "7g.141gb"))]
    snapshot = world(half(), a_gpu(idle("1g.18gb", 0)), jobs=jobs, _1g_18gb=9)
    plain, warm = plan_of(snapshot), plan_of(snapshot, warm=True)
    assert (plain.placements, plain.deferrals, plain.reservations) == (
        warm.placements, warm.deferrals, warm.reservations,
    )  # fmt: skip
    assert warm.merges[: len(plain.merges)] == plain.merges


def test_a_place_that_is_being_made_for_a_job_is_not_carved():
    gpu = a_gpu(idle("1g.18gb", 0), a_slice("3g.71gb", 4))
    found = plan_of(world(gpu, jobs=[a_job(mig="4g.71gb")], _1g_18gb=9), warm=True)
    assert reason(found).code is ReasonCode.REPARTITION
    assert [merge.for_job for merge in found.merges] == ["1"]
    assert not found.carves


def test_a_promised_place_is_not_carved():
    gpu = half()
    runs = a_job("0", mig="4g.71gb", time_limit_seconds=600)
    held = devices_of(gpu, runs)
    blocked = a_job("1", mig="7g.141gb")
    found = plan_of(world(gpu, jobs=[blocked], running=[held], _1g_18gb=9), warm=True)
    assert [promise.job for promise in found.reservations] == ["1"]
    assert not found.carves
    assert plan_of(world(gpu, running=[held], _1g_18gb=9), warm=True).carves


def devices_of(gpu, job):
    """The job runs on the first slice of GPU 0."""
    found = plan_of(a_cluster(a_node(a_gpu()), jobs=[job])).placements[0].replicas
    device = replace(found[0].devices[0], start=0, slice=f"n1/0/{gpu.slices[0].id}")
    return RunningJob(job, (replace(found[0], devices=(device,)),), NOW - 60)


@pytest.mark.parametrize("change", [{"pinned": True}, {"settles_at": NOW + 1}, {"healthy": False}])
def test_pinned_settling_and_ill_gpus_are_left_alone(change):
    gpu = a_gpu(idle("2g.35gb", 0), a_slice("1g.18gb", 4))
    for wanted in ({"_4g_71gb": 9}, {"_1g_18gb": 9}):
        touched = plan_of(world(gpu, **wanted), warm=True)
        assert touched.merges or touched.carves
        found = plan_of(world(replace(gpu, **change), **wanted), warm=True)
        assert (found.merges, found.carves) == ((), ())


def test_nothing_is_prepared_on_a_node_that_is_away():
    snapshot = replace(world(half(), _1g_18gb=9), nodes=(away(half()),))
    assert not plan_of(snapshot, warm=True).carves


def test_a_slice_that_a_job_takes_is_not_counted_as_ready_any_more():
    """One of the next ten may want one. Once the one that is ready is taken, another is made."""
    ready = a_gpu(a_slice("4g.71gb", 0), idle("1g.18gb", 4))
    share = {"_1g_18gb": 1, "_7g_141gb": 19}
    assert not plan_of(world(ready, half(), **share), warm=True).carves
    found = plan_of(world(ready, half(), jobs=[a_job(mig="1g.18gb")], **share), warm=True)
    assert placed(found) == ["1"]
    assert found.placements[0].replicas[0].devices[0].slice == "n1/0/1g.18gb@4"
    assert [(carve.gpu, carve.profile) for carve in found.carves] == [("n1/1", "1g.18gb")]


def test_who_waits_is_provided_for_once_what_was_carved_is_there():
    """The warm slices of one pass are what the next pass gives."""
    first = plan_of(world(half(), _1g_18gb=9), warm=True)
    made = [idle(c.profile, c.start) for c in first.carves]
    gpu = a_gpu(a_slice("4g.71gb", 0), *made)
    found = plan_of(world(gpu, jobs=[a_job(mig="1g.18gb")], _1g_18gb=9), warm=True)
    assert found.placements[0].replicas[0].devices[0].slice
    assert (found.merges, found.carves) == ((), ())


def test_a_preview_has_one_sentence_for_each_proposal_and_changes_nothing():
    gpu = a_gpu(idle("2g.35gb", 0), a_slice("1g.18gb", 4))
    snapshot = world(gpu)
    assert preview(snapshot, Policy()).gpu_sentences() == ()
    wanted = preview(world(gpu, half(), _1g_18gb=9), Policy())
    assert len(wanted.gpu_sentences()) == len(wanted.carves) > 0
    assert {key for key, _ in wanted.gpu_sentences()} <= {"n1/0", "n1/1"}
    assert not plan_of(world(gpu, half(), _1g_18gb=9)).carves


def test_a_preview_can_ask_what_an_approval_would_bring():
    """The job's own merge is not listed: it is no preparation."""
    busy = (half(), a_gpu(idle("2g.35gb", 0), a_slice("1g.18gb", 4)))
    job = a_job(mig="4g.71gb", hold_reason="")
    found = preview(world(*busy, _1g_18gb=5), Policy(), job)
    assert all(not merge.for_job for merge in found.merges)
    assert {carve.gpu for carve in found.carves} == {"n1/0"}


def test_a_preview_advises_another_mode_for_an_empty_gpu():
    found = preview(world(a_gpu(mode=GpuMode.WHOLE), _1g_18gb=9), Policy())
    assert [(change.gpu, change.mode) for change in found.modes] == [("n1/0", GpuMode.MIG)]
    assert found.gpu_sentences() == (("n1/0", found.modes[0].message.text),)
