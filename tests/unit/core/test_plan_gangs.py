"""A gang gets all of its devices or none, near each other where it can and where it must."""

from collections import Counter

import pytest

from scheduler.core.model.policy import OrderMode
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import Topology
from tests.support.snapshots import (
    L40S,
    a_cluster,
    a_gpu,
    a_job,
    a_node,
    a_slice,
    devices,
    placed,
    plan_of,
    reason,
)

TAKEN = a_gpu(a_slice(""))


def nodes_of(found, job="1"):
    (place,) = (p for p in found.placements if p.job == job)
    return [replica.node for replica in place.replicas]


def test_a_gang_that_does_not_fit_whole_gets_nothing_and_leaves_nothing_taken():
    nodes = (a_node(a_gpu(), TAKEN, name="n1"), a_node(a_gpu(), name="n2"))
    jobs = [a_job("1", gpus=1, replicas=3), a_job("2", gpus=1), a_job("3", gpus=1)]
    found = plan_of(a_cluster(*nodes, jobs=jobs), order=OrderMode.FIFO)
    assert placed(found) == ["2", "3"]
    said = reason(found, "1")
    assert said.code is ReasonCode.RESOURCES
    assert (said.evidence["needed"], said.evidence["free"]) == (3, 2)


def test_every_rank_is_named_once_and_no_device_twice():
    nodes = [a_node(*[a_gpu()] * 4, name=f"n{i}") for i in (1, 2)]
    found = plan_of(a_cluster(*nodes, jobs=[a_job(gpus=2, replicas=4)]))
    assert [replica.rank for replica in found.placements[0].replicas] == [0, 1, 2, 3]
    taken = devices(found)
    assert len(taken) == len(set(taken)) == 8


def test_the_gpus_of_one_replica_are_on_one_node():
    nodes = [a_node(a_gpu(), a_gpu(), a_gpu(), name=f"n{i}") for i in (1, 2)]
    found = plan_of(a_cluster(*nodes, jobs=[a_job("1", gpus=2), a_job("2", gpus=2)]))
    for place in found.placements:
        (replica,) = place.replicas
        assert all(device.gpu.startswith(replica.node + "/") for device in replica.devices)
    assert reason(plan_of(a_cluster(*nodes, jobs=[a_job(gpus=4)]))).code is ReasonCode.IMPOSSIBLE


@pytest.mark.parametrize("topology", [Topology.BEST, Topology.SAME_NODE, Topology.NVLINK])
def test_one_node_is_preferred_where_one_has_enough(topology):
    nodes = [a_node(a_gpu(), name="a"), a_node(a_gpu(), a_gpu(), a_gpu(), name="b")]
    found = plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, replicas=3, topology=topology)]))
    assert nodes_of(found) == ["b", "b", "b"]


@pytest.mark.parametrize("topology", [Topology.BEST, Topology.ANY])
def test_a_gang_spreads_over_nodes_of_one_network_where_no_node_has_enough(topology):
    nodes = [a_node(a_gpu(), a_gpu(), name=name) for name in ("a", "b")]
    found = plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, replicas=4, topology=topology)]))
    assert Counter(nodes_of(found)) == {"a": 2, "b": 2}


def test_topology_any_spreads_evenly_even_where_one_node_has_enough():
    nodes = [a_node(*[a_gpu()] * 4, name=name) for name in ("a", "b")]
    job = a_job(gpus=1, replicas=4, topology=Topology.ANY)
    assert Counter(nodes_of(plan_of(a_cluster(*nodes, jobs=[job])))) == {"a": 2, "b": 2}


@pytest.mark.parametrize("topology", [Topology.SAME_NODE, Topology.NVLINK])
def test_a_gang_that_must_be_near_waits_for_one_node_and_is_told_so(topology):
    nodes = [a_node(a_gpu(), TAKEN, name=name) for name in ("a", "b")]
    found = plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, replicas=2, topology=topology)]))
    said = reason(found)
    assert said.code is ReasonCode.TOPOLOGY
    assert said.evidence["by_node"] == {"a": 1, "b": 1}


def test_a_gang_never_spans_two_networks():
    nodes = (a_node(a_gpu(), TAKEN, name="a"), a_node(a_gpu(), TAKEN, name="b", fabric="other"))
    found = plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, replicas=2)]))
    assert not found.placements
    nodes += (a_node(a_gpu(), name="c", fabric="other"),)
    found = plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, replicas=2)]))
    assert sorted(nodes_of(found)) == ["b", "c"]


def test_replicas_count_the_cpu_and_memory_of_their_node():
    small = {"cpu_free_milli": 3_000, "memory_free_mib": 8_192}
    nodes = [a_node(*[a_gpu()] * 4, name=name, **small) for name in ("a", "b")]
    by_cpu = a_job(gpus=1, replicas=6, cpu_milli=1_000)
    assert Counter(nodes_of(plan_of(a_cluster(*nodes, jobs=[by_cpu])))) == {"a": 3, "b": 3}
    by_memory = a_job(gpus=1, replicas=4, memory_mib=4_096)
    assert Counter(nodes_of(plan_of(a_cluster(*nodes, jobs=[by_memory])))) == {"a": 2, "b": 2}
    for too_much in ({"cpu_milli": 3_001}, {"memory_mib": 8_193}):
        said = reason(plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, **too_much)])))
        assert said.code is ReasonCode.RESOURCES
        assert "no node has enough CPU and memory free" in said.sentence


def test_a_gang_is_of_one_kind_of_device():
    nodes = (a_node(a_gpu(), a_gpu(board=L40S), a_gpu(board=L40S)),)
    found = plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, replicas=2)]))
    assert [gpu for gpu, _, _ in devices(found)] == ["n1/1", "n1/2"]


def test_the_gpus_of_a_replica_share_a_numa_node_where_one_has_enough():
    gpus = [a_gpu(numa=numa) for numa in (0, 1, 0, 1, 1)]
    found = plan_of(a_cluster(a_node(*gpus), jobs=[a_job(gpus=2)]))
    assert [gpu for gpu, _, _ in devices(found)] == ["n1/0", "n1/2"]
    found = plan_of(a_cluster(a_node(*gpus), jobs=[a_job(gpus=3)]))
    assert [gpu for gpu, _, _ in devices(found)] == ["n1/1", "n1/3", "n1/4"]
    assert len(devices(plan_of(a_cluster(a_node(*gpus), jobs=[a_job(gpus=5)])))) == 5


def test_a_whole_gpu_is_never_one_with_anything_held_on_it():
    gpus = (a_gpu(a_slice("1g.18gb", 6)), a_gpu(), TAKEN)
    found = plan_of(a_cluster(a_node(*gpus), jobs=[a_job("1", gpus=1), a_job("2", gpus=1)]))
    assert devices(found, "1") == [("n1/1", "", 0)]
    assert placed(found) == ["1"]


def test_a_gang_of_slices_may_be_made_of_ready_and_new_ones():
    gpu = a_gpu(a_slice("2g.35gb", 2, allocated=False), a_slice("2g.35gb", 0))
    found = plan_of(a_cluster(a_node(gpu), jobs=[a_job(replicas=2)]))
    assert [start for _, _, start in devices(found)] == [2, 4]
    assert "1 carved, 1 ready" in found.placements[0].sentence
