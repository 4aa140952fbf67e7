"""A job with volumes goes only where they are, and says which nodes do not have them."""

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

READ = {"volume_access": ("datasets",)}
WRITE = {"volume_access": ("datasets:write",)}
OFFERED = {"volume_access": ("datasets", "datasets:write")}


def nodes_of(found):
    return {r.node for place in found.placements for r in place.replicas}


def test_a_job_goes_to_the_node_that_offers_its_volume_and_writes_only_where_it_may():
    nodes = [
        a_node(a_gpu(), a_gpu(), name="a"),
        a_node(a_gpu(), name="b", **READ),
        a_node(a_gpu(), name="c", **OFFERED),
    ]
    assert nodes_of(plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, **WRITE)]))) == {"c"}
    two = [a_job(str(n), gpus=1, **READ) for n in (1, 2, 3)]
    found = plan_of(a_cluster(*nodes, jobs=two))
    assert nodes_of(found) == {"b", "c"} and len(found.placements) == 2


def test_where_no_node_has_it_the_job_waits_and_names_the_nodes():
    nodes = [a_node(a_gpu(), name="a"), a_node(a_gpu(), name="b", **READ)]
    found = reason(plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, **WRITE)])))
    assert found.code is ReasonCode.VOLUME
    assert found.evidence["nodes"] == {
        "a": "a offers no volumes below datasets",
        "b": "b offers datasets for reading only",
    }
    assert found.unblocks.startswith("An admin has to offer datasets")


def test_a_root_that_is_mounted_again_takes_the_job_in_the_next_pass_of_the_same_planner():
    cache, job = PassCache(), a_job(gpus=1, **READ)
    before = a_cluster(a_node(a_gpu()), jobs=[job])
    after = a_cluster(a_node(a_gpu(), **READ), jobs=[job])
    assert placed(plan(before, Policy(), cache=cache)) == []
    assert placed(plan(after, Policy(), cache=cache)) == ["1"]


def test_a_placement_is_refused_if_the_root_has_gone_meanwhile():
    job = a_job(gpus=1, **READ)
    (place,) = plan_of(a_cluster(a_node(a_gpu(), **READ), jobs=[job])).placements
    refused = illegal_reason(place, job, a_cluster(a_node(a_gpu())))
    assert refused is not None and refused.code is ReasonCode.VOLUME


def test_two_jobs_that_differ_in_their_volumes_do_not_share_a_verdict():
    plain, with_volume = a_job("1", gpus=1), a_job("2", gpus=1, **READ)
    assert eligibility_key(plain) != eligibility_key(with_volume)
    found = plan_of(a_cluster(a_node(a_gpu(), a_gpu()), jobs=[plain, with_volume]))
    assert placed(found) == ["1"]
