"""Code of a git repository goes to nodes that fetch from its host, or the job says who does not."""

from dataclasses import replace

from scheduler.core.model.reasons import ReasonCode
from scheduler.core.placement.node_eligibility import eligibility_key
from tests.support.snapshots import a_cluster, a_gpu, a_job, a_node, illegal_reason, plan_of, reason

HOST = "git.example:8443"
JOB = a_job(gpus=1, git_host=HOST)


def nodes_of(found):
    return {r.node for place in found.placements for r in place.replicas}


def test_it_is_placed_on_a_node_that_fetches_from_its_host():
    plain = a_node(a_gpu(), name="a")
    other = a_node(a_gpu(), name="b", git_hosts=("git.example", "github.com"))
    fetching = a_node(a_gpu(), name="c", git_hosts=("github.com", HOST))
    assert nodes_of(plan_of(a_cluster(plain, other, fetching, jobs=[JOB]))) == {"c"}
    assert not plan_of(a_cluster(plain, other, jobs=[JOB])).placements
    without = replace(JOB, git_host="")
    assert nodes_of(plan_of(a_cluster(plain, jobs=[without]))) == {"a"}
    assert eligibility_key(without) != eligibility_key(JOB)


def test_where_no_node_does_the_job_waits_and_says_what_to_do():
    nodes = [a_node(a_gpu(), name=name) for name in ("a", "b")]
    found = reason(plan_of(a_cluster(*nodes, jobs=[JOB])))
    assert found.code is ReasonCode.NODE_UNAVAILABLE
    assert f"a fetches no code from {HOST}" in found.sentence
    assert "Send the folder" in found.unblocks and HOST in found.unblocks


def test_a_placement_is_refused_where_the_host_was_taken_off_the_list_meanwhile():
    fetching, plain = a_node(a_gpu(), git_hosts=(HOST,)), a_node(a_gpu())
    (place,) = plan_of(a_cluster(fetching, jobs=[JOB])).placements
    assert illegal_reason(place, JOB, a_cluster(fetching)) is None
    assert illegal_reason(place, JOB, a_cluster(plain)) is not None
