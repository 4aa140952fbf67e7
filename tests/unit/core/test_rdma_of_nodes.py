"""A job that insists on RDMA goes to nodes that offer it, and says so where none does."""

from dataclasses import replace

from scheduler.core.model.reasons import ReasonCode
from scheduler.core.placement.node_eligibility import eligibility_key
from tests.support.snapshots import a_cluster, a_gpu, a_job, a_node, illegal_reason, plan_of, reason

GANG = a_job(gpus=1, replicas=2, needs_rdma=True)
OFFER = {"rdma": "InfiniBand"}


def nodes_of(found):
    return {r.node for place in found.placements for r in place.replicas}


def test_a_gang_with_rdma_is_placed_on_nodes_that_offer_it():
    plain = a_node(a_gpu(), a_gpu(), name="a")
    joined = [a_node(a_gpu(), name=name, **OFFER) for name in ("b", "c")]
    assert nodes_of(plan_of(a_cluster(plain, *joined, jobs=[GANG]))) == {"b", "c"}
    assert not plan_of(a_cluster(plain, joined[0], jobs=[GANG])).placements
    either = replace(GANG, needs_rdma=False)
    assert nodes_of(plan_of(a_cluster(plain, jobs=[either]))) == {"a"}
    assert eligibility_key(either) != eligibility_key(GANG)


def test_where_no_node_offers_it_the_job_waits_and_says_what_to_do():
    nodes = [a_node(a_gpu(), name=name) for name in ("a", "b")]
    found = reason(plan_of(a_cluster(*nodes, jobs=[GANG])))
    assert found.code is ReasonCode.NODE_UNAVAILABLE
    assert "a offers no RDMA" in found.sentence
    assert found.unblocks == "Set rdma to auto, or a node that offers RDMA has to come back"


def test_a_placement_is_refused_where_the_offer_was_withdrawn_meanwhile():
    offered, plain = a_node(a_gpu(), a_gpu(), **OFFER), a_node(a_gpu(), a_gpu())
    (place,) = plan_of(a_cluster(offered, jobs=[GANG])).placements
    assert illegal_reason(place, GANG, a_cluster(offered)) is None
    assert illegal_reason(place, GANG, a_cluster(plain)) is not None


def test_a_gang_that_needs_rdma_is_on_nodes_with_one_kind_of_it():
    mixed = a_node(a_gpu(), name="a", **OFFER), a_node(a_gpu(), name="b", rdma="Ethernet")
    found = plan_of(a_cluster(*mixed, jobs=[GANG]))
    assert not found.placements
    assert reason(found).code is ReasonCode.TOPOLOGY
    assert reason(found).unblocks.startswith("Set rdma to auto")
    alike = a_node(a_gpu(), name="c", rdma="Ethernet")
    assert nodes_of(plan_of(a_cluster(*mixed, alike, jobs=[GANG]))) == {"b", "c"}
    either = plan_of(a_cluster(*mixed, jobs=[replace(GANG, needs_rdma=False)]))
    assert nodes_of(either) == {"a", "b"}
    assert illegal_reason(either.placements[0], GANG, a_cluster(*mixed)) is not None
