"""Gangs avoid pairs of nodes that are slow where they find another place; a job that measures a
pair runs on that alone."""

from dataclasses import replace

import pytest

from agents.contract.codec import encode
from scheduler.core.model.policy import Policy
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import NodePair, Topology
from scheduler.core.placement.node_eligibility import eligibility_key
from scheduler.core.snapshot_file import read_pass, write_pass
from tests.support.snapshots import a_cluster, a_gpu, a_job, a_node, plan_of, reason

GANG = a_job(gpus=1, replicas=2)
AB, AC, BC = NodePair("a", "b"), NodePair("a", "c"), NodePair("b", "c")


def nodes(names: str, **fields):
    return [a_node(a_gpu(), name=name, **fields) for name in names]


def places(cluster) -> set[str]:
    return {r.node for place in plan_of(cluster).placements for r in place.replicas}


def world(names: str, *pairs: NodePair, jobs=(GANG,), **fields):
    return replace(a_cluster(*nodes(names, **fields), jobs=list(jobs)), slow_pairs=pairs)


@pytest.mark.parametrize("topology", [Topology.BEST, Topology.ANY])
@pytest.mark.parametrize(
    ("names", "pairs", "found"),
    [
        ("abc", (), "ab"),
        ("abc", (AB,), "ac"),
        ("abc", (AC,), "ab"),
        # The best node is slow with every other one.
        ("abc", (AB, AC), "bc"),
        # There is no other place: a slow network is better than none.
        ("ab", (AB,), "ab"),
        ("abc", (AB, AC, BC), "ab"),
        # Of nodes that are not there.
        ("abc", (NodePair("a", "z"), NodePair("y", "z")), "ab"),
    ],
)
def test_a_gang_is_on_a_slow_pair_only_where_it_finds_no_other_place(topology, names, pairs, found):
    job = replace(GANG, topology=topology)
    assert places(world(names, *pairs, jobs=[job])) == set(found)


def test_a_node_of_its_own_is_as_good_as_ever():
    cluster = a_cluster(a_node(a_gpu(), a_gpu(), name="a"), *nodes("b"), jobs=[GANG])
    assert places(replace(cluster, slow_pairs=(AB,))) == {"a"}


def test_a_gang_of_three_leaves_out_a_node_that_is_slow_with_one_of_the_others():
    gang = replace(GANG, replicas=3)
    assert places(world("abcd", AB, jobs=[gang])) == {"a", "c", "d"}
    assert places(world("abcd", AB, AC, jobs=[gang])) == {"b", "c", "d"}


def test_without_slow_pairs_saved_passes_are_the_same_bytes_and_with_some_they_come_back():
    plain, slow = world("ab"), world("ab", AB)
    assert "slow_pairs" not in encode(plain) and "only_nodes" not in encode(plain.jobs[0])
    text = write_pass(slow, Policy())
    again, _ = read_pass(text)
    assert again.slow_pairs == (AB,)
    assert write_pass(again, Policy()) == text


def test_a_job_that_measures_runs_on_its_nodes_alone_and_says_what_it_waits_for():
    measures = replace(GANG, only_nodes=("b", "c"))
    assert places(world("abcd", BC, jobs=[measures])) == {"b", "c"}
    found = reason(plan_of(world("abc", jobs=[replace(GANG, only_nodes=("x", "y"))])))
    assert found.code is ReasonCode.NODE_UNAVAILABLE
    assert "a is not one of the nodes that it measures" in found.sentence
    assert eligibility_key(measures) != eligibility_key(GANG)
