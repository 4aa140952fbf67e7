"""MPS shares: one project a GPU, never more than its threads, memory and clients, mode kept."""

from dataclasses import replace

import pytest

from agents.contract.boards import known_boards
from agents.contract.documents import GpuMode, SliceKind
from agents.contract.launcher_names import LauncherName
from scheduler.core.model.policy import Policy
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import Isolation
from scheduler.core.pass_cache import PassCache
from scheduler.core.plan import plan
from tests.support.snapshots import (
    A30,
    H200,
    L40S,
    a_cluster,
    a_gpu,
    a_job,
    a_node,
    a_quota,
    a_share,
    a_slice,
    idle,
    illegal_reason,
    placed,
    plan_of,
    reason,
)

MEMORY = known_boards()[H200].memory_mib


def one(job, *gpus, **node):
    return plan_of(a_cluster(a_node(*gpus, **node), jobs=[job]))


def gpus_of(found):
    return [d.gpu for place in found.placements for r in place.replicas for d in r.devices]


def a_share_job(id="1", threads=25, memory_mib=10_000, **fields):
    return a_job(id, mps=(threads, memory_mib), **fields)


def test_a_share_of_an_empty_gpu_costs_the_larger_of_its_threads_and_memory():
    found = one(a_share_job(threads=25, memory_mib=1_000), a_gpu())
    (device,) = found.placements[0].replicas[0].devices
    assert (device.kind, device.threads, device.memory_mib) == (SliceKind.MPS, 25, 1_000)
    assert device.units == 14_000
    found = one(a_share_job(threads=1, memory_mib=MEMORY), a_gpu())
    assert found.placements[0].replicas[0].devices[0].units == 56_000
    assert "1 shared" in found.placements[0].sentence


def test_shares_of_one_project_gather_on_one_gpu_where_the_least_is_left():
    fuller, emptier = a_gpu(a_share(50)), a_gpu(a_share(25))
    assert gpus_of(one(a_share_job(), a_gpu(), emptier, fuller)) == ["n1/2"]
    assert gpus_of(one(a_share_job(threads=60), a_gpu(), emptier, fuller)) == ["n1/1"]
    assert gpus_of(one(a_share_job(threads=80), a_gpu(), emptier, fuller)) == ["n1/0"]


def test_a_node_where_the_project_shares_already_comes_before_a_fuller_one():
    full = a_node(a_gpu(a_slice("", board=H200)), a_gpu(), name="n1")
    sharing = a_node(a_gpu(a_share()), a_gpu(), a_gpu(), name="n2")
    found = plan_of(a_cluster(full, sharing, jobs=[a_share_job()]))
    assert gpus_of(found) == ["n2/0"]


def test_two_projects_never_share_a_gpu():
    found = one(a_share_job(project="q"), a_gpu(a_share(project="p")))
    assert reason(found).code is ReasonCode.RESOURCES
    both = [a_share_job("1"), a_share_job("2", project="q"), a_share_job("3")]
    found = plan_of(a_cluster(a_node(a_gpu(), a_gpu()), jobs=both))
    assert gpus_of(found) == ["n1/0", "n1/1", "n1/0"]


@pytest.mark.parametrize(
    "there",
    [a_share(80, 1_000), a_share(10, MEMORY - 9_999), a_share(10, 1_000, clients=48)],
    ids=["threads", "memory", "clients"],
)
def test_what_is_not_left_is_not_given(there):
    found = one(a_share_job(), a_gpu(there))
    assert reason(found).code is ReasonCode.RESOURCES
    assert reason(found).sentence == "1 \u00d7 25 % of H200 needed, 0 free"


@pytest.mark.parametrize(
    "there",
    [a_share(75, 1_000), a_share(10, MEMORY - 10_000), a_share(10, 1_000, clients=47)],
    ids=["threads", "memory", "clients"],
)
def test_the_last_bit_is_given(there):
    assert placed(one(a_share_job(), a_gpu(there))) == ["1"]


def test_a_gang_of_shares_fills_one_gpu_and_goes_on_with_the_next():
    found = one(a_share_job(threads=40, replicas=5), a_gpu(), a_gpu(), a_gpu())
    assert gpus_of(found) == ["n1/0", "n1/0", "n1/1", "n1/1", "n1/2"]


@pytest.mark.parametrize("there", [a_slice("1g.18gb"), a_slice("")], ids=["a slice", "a GPU"])
def test_a_gpu_that_is_held_otherwise_is_not_shared(there):
    assert not placed(one(a_share_job(), a_gpu(there)))


@pytest.mark.parametrize("job", [a_job(mig="1g.18gb"), a_job(gpus=1), a_job(device_mib=1_000)])
def test_a_shared_gpu_is_neither_carved_nor_given_whole(job):
    assert not placed(one(job, a_gpu(a_share(1, 100))))


def test_idle_slices_are_merged_for_a_share_but_only_where_no_gpu_is_empty():
    assert gpus_of(one(a_share_job(), a_gpu(idle("1g.18gb", 0)), a_gpu())) == ["n1/1"]
    found = one(a_share_job(), a_gpu(idle("1g.18gb", 0), idle("2g.35gb", 2)))
    assert reason(found).code is ReasonCode.REPARTITION
    (merge,) = found.merges
    assert merge.slices == ("n1/0/1g.18gb@0", "n1/0/2g.35gb@2")


def test_an_empty_gpu_that_was_shared_before_is_shared_again():
    found = one(a_share_job(), a_gpu(mode=GpuMode.MIG), a_gpu(mode=GpuMode.MPS))
    assert gpus_of(found) == ["n1/1"]


def test_a_node_without_mps_gives_no_share():
    found = plan_of(
        a_cluster(
            a_node(a_gpu(), name="n1", share_clients=0),
            a_node(a_gpu(), name="n2"),
            jobs=[a_share_job()],
        )
    )
    assert gpus_of(found) == ["n2/0"]
    never = reason(one(a_share_job(), a_gpu(), share_clients=0))
    assert never.code is ReasonCode.IMPOSSIBLE
    assert "No node here offers MPS shares" in never.sentence


def test_what_no_gpu_could_ever_share_is_said_at_once():
    too_much = reason(one(a_share_job(memory_mib=MEMORY + 1), a_gpu()))
    assert too_much.code is ReasonCode.IMPOSSIBLE
    assert f"the largest has {MEMORY} MB" in too_much.sentence
    too_many = reason(
        one(a_share_job(threads=64, processes=49, launcher=LauncherName.TORCHRUN), a_gpu())
    )
    assert too_many.code is ReasonCode.IMPOSSIBLE
    assert "GPU serves 48" in too_many.sentence
    gang = reason(one(a_share_job(threads=60, replicas=3), a_gpu(), a_gpu()))
    assert gang.evidence == {"needed": 3, "largest": 2}


def test_a_size_in_memory_becomes_a_share_only_for_who_takes_any_isolation():
    (hardware,) = one(a_job(device_mib=5_000), a_gpu()).placements[0].replicas[0].devices
    assert hardware.kind is SliceKind.MIG
    job = a_job(device_mib=5_000, isolation=Isolation.ANY)
    (share,) = one(job, a_gpu()).placements[0].replicas[0].devices
    assert (share.kind, share.threads, share.memory_mib) == (SliceKind.MPS, 4, 5_000)
    on_l40s = one(replace(job, device=replace(job.device, models=("L40S",))), a_gpu(board=L40S))
    assert on_l40s.placements[0].replicas[0].devices[0].threads == 11


def test_a_share_counts_against_the_quota():
    world = a_cluster(a_node(a_gpu()), jobs=[a_share_job()], quotas=[a_quota(gpus=0.2)])
    assert reason(plan_of(world)).code is ReasonCode.IMPOSSIBLE
    world = a_cluster(a_node(a_gpu()), jobs=[a_share_job()], quotas=[a_quota(gpus=1, used=0.8)])
    assert reason(plan_of(world)).code is ReasonCode.QUOTA_PROJECT


def test_the_committer_refuses_a_share_that_no_longer_fits():
    job = a_share_job()
    (place,) = one(job, a_gpu()).placements
    worlds = {
        "same project": ([a_share(75)], True),
        "no threads": ([a_share(76)], False),
        "another project": ([a_share(1, project="q")], False),
        "a slice": ([a_slice("1g.18gb")], False),
        "held whole": ([a_slice("")], False),
    }
    for slices, legal in worlds.values():
        refused = illegal_reason(place, job, a_cluster(a_node(a_gpu(*slices))))
        assert (refused is None) is legal, slices


def test_another_board_than_the_one_asked_for_is_not_shared():
    found = one(a_job(mps=(25, 1_000), models=("H200",)), a_gpu(board=A30), a_gpu())
    assert gpus_of(found) == ["n1/1"]


def test_shares_that_are_gone_again_draw_nobody_to_their_node():
    """A planner that remembers the last pass plans as one that does not."""
    roomy = a_node(a_gpu(), a_gpu(), a_gpu(), name="a")
    tight = a_node(a_gpu(), name="b", cpu_free_milli=1_000)
    jobs, kept = [a_job(id, mps=(60, 1_000)) for id in ("1", "2", "3")], PassCache()
    assert len(plan(a_cluster(roomy, tight, jobs=jobs), Policy(), cache=kept).placements) == 3
    later = a_cluster(roomy, tight, jobs=jobs[:1])
    assert plan(later, Policy(), cache=kept) == plan(later, Policy())
