"""Replicas of a gang on one node share a container where nothing but the numbers of the world tells
that apart from a container each."""

from dataclasses import replace

import pytest

from agents.contract.documents import SliceKind
from agents.contract.launcher_names import LauncherName
from agents.contract.replica_limits import MAX_PROCESSES
from agents.launchers.registry import LAUNCHERS
from scheduler.core.model.decisions import DevicePlacement, ReplicaPlacement
from scheduler.core.model.snapshot import DeviceRequest
from scheduler.core.placement.joined_replicas import (
    joined_count,
    joined_placement,
    may_join,
    separate_replicas,
)
from tests.support.snapshots import a_job

GANG = a_job(gpus=1, replicas=8, launcher=LauncherName.TORCHRUN)


def test_those_with_a_process_for_each_whole_gpu_may_join():
    assert may_join(GANG)
    assert may_join(replace(GANG, device=DeviceRequest(gpus=4), processes=4))
    assert not may_join(replace(GANG, replicas=1))
    # One process that drives two GPUs would have to find the second one by itself.
    assert not may_join(replace(GANG, device=DeviceRequest(gpus=2)))
    # CUDA shows a process one slice, and a share has its limits by the process.
    assert not may_join(replace(GANG, device=DeviceRequest(mig="1g.18gb")))
    assert not may_join(replace(GANG, device=DeviceRequest(memory_mib=20_000)))
    assert not may_join(replace(GANG, device=DeviceRequest(mps_threads=25, mps_memory_mib=1_024)))


def test_launchers_that_start_ranks_join_them():
    """Others start one process or server in each replica: two of them are not one."""
    joining = {name for name in LAUNCHERS if may_join(replace(GANG, launcher=name))}
    named = "torchrun accelerate deepspeed megatron openmpi nccl-tests"
    assert joining == set(map(LauncherName, named.split()))
    assert all(LAUNCHERS[name].starts_several for name in joining)


@pytest.mark.parametrize(
    ("nodes", "count"),
    [
        ("aaaaaaaa", 8),
        ("aaaabbbb", 4),
        ("aabbccdd", 2),
        ("aaaabb", 2),
        ("aaab", 1),
        ("abcd", 1),
    ],
)
def test_as_many_share_a_container_as_divide_the_number_on_every_node(nodes, count):
    assert joined_count(replace(GANG, replicas=len(nodes)), nodes) == count


def test_no_container_has_more_processes_than_a_replica_may_have():
    gang = replace(GANG, device=DeviceRequest(gpus=12), processes=12, replicas=6)
    assert joined_count(gang, "a" * 6) == 3
    assert 3 * 12 <= MAX_PROCESSES < 6 * 12


def device(name):
    return DevicePlacement(name, SliceKind.GPU, "", 0, 8, 56_000, 1_000)


def gang_on(nodes, gpus=1):
    return tuple(
        ReplicaPlacement(
            rank, node, tuple(device(f"{node}{rank}-{number}") for number in range(gpus))
        )
        for rank, node in enumerate(nodes)
    )


def test_a_container_has_the_devices_of_its_replicas_and_rank_0_stays_where_it_is():
    containers = joined_placement(gang_on("babaaa", gpus=2)[::-1], 2)
    assert [(each.rank, each.node) for each in containers] == [(0, "b"), (1, "a"), (2, "a")]
    assert [device.gpu for device in containers[1].devices] == ["a1-0", "a1-1", "a3-0", "a3-1"]
    assert joined_placement(gang_on("ab"), 1) == gang_on("ab")


@pytest.mark.parametrize(("nodes", "joined"), [("aabb", 2), ("aaaa", 4), ("ab", 1), ("abab", 2)])
def test_the_planner_sees_as_many_replicas_as_were_requested(nodes, joined):
    """Each on its node, with as many devices: these are alike, so which one is whose is nothing."""
    placed = gang_on(nodes, gpus=2)
    containers = joined_placement(placed, joined)
    seen = [one for each in containers for one in separate_replicas(each, joined)]
    assert [one.rank for one in seen] == list(range(len(nodes)))
    assert sorted(one.node for one in seen) == sorted(nodes)
    assert {len(one.devices) for one in seen} == {2}
    assert {d for one in seen for d in one.devices} == {d for one in placed for d in one.devices}
