"""Where a gang stands by how GPUs and nodes are joined, and by what nodes are for."""

from itertools import combinations

import pytest

from agents.contract.topology import GpuPair, NodeTopology
from scheduler.core.model.links import links_of
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import Topology
from tests.support.snapshots import (
    a_cluster,
    a_gpu,
    a_job,
    a_node,
    a_slice,
    devices,
    illegal_reason,
    placed,
    plan_of,
    reason,
)

TAKEN = a_gpu(a_slice(""))


def bridged(*groups, gpus=4):
    """Links of a node whose GPUs are joined by NVLink inside each group."""
    pairs = []
    for one, other in combinations(range(gpus), 2):
        near = any({one, other} <= group for group in groups)
        rate = 450_000 if near else 20_000
        pairs.append(GpuPair(one, other, "SYS", 4 if near else 0, False, rate))
    return links_of(NodeTopology(gpus=tuple(range(gpus)), pairs=tuple(pairs)))


def indexes(found, job="1"):
    return sorted(int(gpu.rpartition("/")[2]) for gpu, _, _ in devices(found, job))


def test_a_job_of_two_gpus_gets_two_that_nvlink_joins():
    node = a_node(*[a_gpu()] * 4, links=bridged({0, 2}, {1, 3}))
    assert indexes(plan_of(a_cluster(node, jobs=[a_job(gpus=2)]))) == [0, 2]


def test_a_gang_on_one_node_is_one_ring_though_its_replicas_have_one_gpu_each():
    node = a_node(TAKEN, *[a_gpu()] * 3, links=bridged({0, 1}, {2, 3}))
    assert indexes(plan_of(a_cluster(node, jobs=[a_job(gpus=1, replicas=2)]))) == [2, 3]


def test_a_job_of_one_gpu_takes_the_one_whose_partner_is_gone():
    node = a_node(TAKEN, *[a_gpu()] * 3, links=bridged({0, 3}, {1, 2}))
    assert indexes(plan_of(a_cluster(node, jobs=[a_job(gpus=1)]))) == [3]


def test_nvlink_is_a_must_where_it_is_asked_for():
    node = a_node(*[a_gpu()] * 4, links=bridged({0, 1}, {2, 3}))
    four = a_job(gpus=4, topology=Topology.NVLINK)
    assert placed(plan_of(a_cluster(node, jobs=[four]))) == []
    two = a_job(gpus=2, topology=Topology.NVLINK)
    assert placed(plan_of(a_cluster(node, jobs=[two]))) == ["1"]


def test_the_committer_refuses_what_nvlink_does_not_join():
    node = a_node(*[a_gpu()] * 4, links=bridged({0, 1}, {2, 3}))
    apart = a_job(gpus=4)
    (place,) = plan_of(a_cluster(node, jobs=[apart])).placements
    asked = a_job(gpus=4, topology=Topology.NVLINK)
    assert illegal_reason(place, apart, a_cluster(node)) is None
    assert illegal_reason(place, asked, a_cluster(node)).code is ReasonCode.TOPOLOGY


def test_a_gang_over_several_nodes_stays_below_one_leaf_switch_where_it_can():
    nodes = [
        a_node(a_gpu(), name=f"n{i}", labels=(f"leaf={leaf}",)) for i, leaf in enumerate("abbaa")
    ]
    found = plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, replicas=2)]))
    assert {gpu.partition("/")[0] for gpu, _, _ in devices(found)} == {"n1", "n2"}
    larger = plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, replicas=5)]))
    assert placed(larger) == ["1"]


def test_a_gang_over_several_nodes_has_the_same_rails():
    """GPUs of equal index are on one rail."""
    nodes = [
        a_node(TAKEN, TAKEN, a_gpu(), a_gpu(), name="n1"),
        a_node(*[a_gpu()] * 4, name="n2"),
    ]
    found = plan_of(a_cluster(*nodes, jobs=[a_job(gpus=2, replicas=2, cpu_milli=40_000)]))
    assert indexes(found) == [2, 2, 3, 3]


@pytest.mark.parametrize(
    ("needs", "there"),
    [(("rack=a",), "n1"), (("rack",), "n1"), (("ssd",), "n2"), ((), "n0")],
)
def test_a_job_runs_only_where_the_labels_are_that_it_needs(needs, there):
    nodes = (
        a_node(a_gpu(), name="n0"),
        a_node(a_gpu(), name="n1", labels=("rack=a",)),
        a_node(a_gpu(), name="n2", labels=("ssd", "disk=fast")),
    )
    found = plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, needs=needs)]))
    assert devices(found)[0][0].startswith(there)


def test_a_tainted_node_takes_only_who_tolerates_every_taint():
    node = a_node(a_gpu(), taints=("team=vision", "beta"))
    for tolerates, runs in ((("team",), []), (("team=vision", "beta"), ["1"]), ((), [])):
        job = a_job(gpus=1, tolerates=tolerates)
        assert placed(plan_of(a_cluster(node, jobs=[job]))) == runs


def test_who_may_run_nowhere_hears_which_label_or_taint_is_in_the_way():
    node = a_node(a_gpu(), taints=("beta",))
    said = reason(plan_of(a_cluster(node, jobs=[a_job(gpus=1)])))
    assert said.code is ReasonCode.NODE_UNAVAILABLE
    assert "n1 is reserved for jobs that tolerate beta" in said.sentence
    labelled = a_node(a_gpu(), name="n2", labels=("rack=b",))
    said = reason(plan_of(a_cluster(labelled, jobs=[a_job(gpus=1, needs=("rack=a",))])))
    assert "n2 has no label rack=a" in said.sentence
