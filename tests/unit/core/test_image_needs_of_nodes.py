"""A job goes only where its image can run, once that is known, and says which driver it needs."""

from agents.contract.image_needs import ImageNeeds, NodeFit
from scheduler.core.model.policy import Policy
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.pass_cache import PassCache
from scheduler.core.placement.node_eligibility import eligibility_key
from scheduler.core.plan import plan
from tests.support.snapshots import (
    a_cluster,
    a_gpu,
    a_job,
    a_node,
    illegal_reason,
    placed,
    plan_of,
    reason,
)

NEEDS = {"image_needs": ImageNeeds(("cuda>=12.4",))}
OLD = {"fit": NodeFit("12.2", "535.104", "amd64")}
NEW = {"fit": NodeFit("13.0", "580.65", "amd64")}
ARM = {"fit": NodeFit("13.0", "580.65", "arm64")}


def test_a_job_goes_to_the_node_whose_driver_its_image_needs():
    nodes = [a_node(a_gpu(), a_gpu(), name="a", **OLD), a_node(a_gpu(), name="b", **NEW)]
    found = plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, **NEEDS)]))
    assert [r.node for place in found.placements for r in place.replicas] == ["b"]
    unknown = plan_of(a_cluster(a_node(a_gpu(), name="a"), jobs=[a_job(gpus=1, **NEEDS)]))
    assert placed(unknown) == ["1"]


def test_where_no_node_has_it_the_job_waits_and_names_the_driver_and_what_nodes_have():
    nodes = [a_node(a_gpu(), name="a", **OLD)]
    found = reason(plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, **NEEDS)])))
    assert found.code is ReasonCode.IMAGE
    assert found.evidence["nodes"] == {
        "a": "a has CUDA 12.2 (driver 535.104, amd64), and the image needs a driver for CUDA 12.4,"
        " which is 550 or newer"
    }
    assert "a driver for CUDA 12.4, which is 550 or newer" in found.unblocks


def test_an_image_of_one_architecture_goes_to_nodes_of_it():
    needs = {"image_needs": ImageNeeds((), "amd64")}
    nodes = [a_node(a_gpu(), a_gpu(), name="a", **ARM), a_node(a_gpu(), name="b", **OLD)]
    found = plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, **needs)]))
    assert [r.node for place in found.placements for r in place.replicas] == ["b"]


def test_a_new_driver_takes_the_job_in_the_next_pass_of_the_same_planner():
    cache, job = PassCache(), a_job(gpus=1, **NEEDS)
    before = a_cluster(a_node(a_gpu(), **OLD), jobs=[job])
    after = a_cluster(a_node(a_gpu(), **NEW), jobs=[job])
    assert placed(plan(before, Policy(), cache=cache)) == []
    assert placed(plan(after, Policy(), cache=cache)) == ["1"]


def test_a_placement_is_refused_where_the_image_turned_out_not_to_run():
    job = a_job(gpus=1, **NEEDS)
    (place,) = plan_of(a_cluster(a_node(a_gpu(), **NEW), jobs=[job])).placements
    refused = illegal_reason(place, job, a_cluster(a_node(a_gpu(), **OLD)))
    assert refused is not None and refused.code is ReasonCode.IMAGE


def test_two_jobs_that_differ_in_their_image_do_not_share_a_verdict():
    plain, choosy = a_job("1", gpus=1), a_job("2", gpus=1, **NEEDS)
    assert eligibility_key(plain) != eligibility_key(choosy)
    found = plan_of(a_cluster(a_node(a_gpu(), a_gpu(), **OLD), jobs=[plain, choosy]))
    assert placed(found) == ["1"]
