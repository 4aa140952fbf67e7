"""Jobs of projects that may not reach everything go to nodes that limit it, and say so where none
does."""

from dataclasses import replace

import pytest

from agents.contract.egress import EgressPolicy
from scheduler.core.model.reasons import ReasonCode
from tests.support.snapshots import a_cluster, a_gpu, a_job, a_node, illegal_reason, plan_of, reason

CLOSED = a_job(gpus=1, egress=EgressPolicy.NONE)


def nodes_of(found):
    return {r.node for place in found.placements for r in place.replicas}


@pytest.mark.parametrize("policy", [EgressPolicy.INTERNET, EgressPolicy.NONE])
def test_a_limited_job_is_placed_on_a_node_that_limits_it(policy):
    older, limiting = a_node(a_gpu(), name="a"), a_node(a_gpu(), name="b", limits_egress=True)
    job = replace(CLOSED, egress=policy)
    assert nodes_of(plan_of(a_cluster(older, limiting, jobs=[job]))) == {"b"}
    assert not plan_of(a_cluster(older, jobs=[job])).placements


def test_a_job_that_may_reach_everything_goes_to_any_node():
    job = replace(CLOSED, egress=EgressPolicy.ALL)
    assert nodes_of(plan_of(a_cluster(a_node(a_gpu(), name="a"), jobs=[job]))) == {"a"}


def test_where_no_node_limits_it_the_job_waits_and_says_what_to_do():
    nodes = [a_node(a_gpu(), name=name) for name in ("a", "b")]
    found = reason(plan_of(a_cluster(*nodes, jobs=[CLOSED])))
    assert found.code is ReasonCode.NODE_UNAVAILABLE
    assert "a cannot limit what jobs reach, as their project requires (none)" in found.sentence
    assert found.unblocks.startswith("An admin has to add a node that can limit what jobs reach")


def test_a_placement_is_refused_where_the_project_or_the_node_changed_meanwhile():
    limiting, older = a_node(a_gpu(), limits_egress=True), a_node(a_gpu())
    (place,) = plan_of(a_cluster(limiting, jobs=[CLOSED])).placements
    assert illegal_reason(place, CLOSED, a_cluster(limiting)) is None
    assert illegal_reason(place, CLOSED, a_cluster(older)) is not None
