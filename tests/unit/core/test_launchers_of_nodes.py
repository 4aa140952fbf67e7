"""A job never goes to a node whose agent lacks its launcher, and says which agents to update."""

from dataclasses import replace

import pytest

from agents.contract.launcher_names import FIRST_LAUNCHERS, LauncherName
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

OLD = {"launchers": ("none",), "agent_version": "0.0.9"}
TORCHRUN = {"launcher": LauncherName.TORCHRUN}


def nodes_of(found):
    return {r.node for place in found.placements for r in place.replicas}


def test_a_node_that_reports_no_launchers_has_the_first_ones():
    assert FIRST_LAUNCHERS == ("none", "torchrun")
    assert a_node(a_gpu()).launchers == FIRST_LAUNCHERS


@pytest.mark.parametrize("request_fields", [{"gpus": 1}, {"mig": "1g.18gb"}, {"mps": (25, 8_000)}])
def test_a_job_goes_to_the_node_whose_agent_has_its_launcher(request_fields):
    old, new = a_node(a_gpu(), a_gpu(), name="a", **OLD), a_node(a_gpu(), name="b")
    found = plan_of(a_cluster(old, new, jobs=[a_job(**request_fields, **TORCHRUN)]))
    assert nodes_of(found) == {"b"}


def test_a_gang_is_not_split_over_agents_of_which_one_lacks_the_launcher():
    old, new = a_node(a_gpu(), name="a", **OLD), a_node(a_gpu(), name="b")
    gang = a_job(gpus=1, replicas=2, **TORCHRUN)
    assert not plan_of(a_cluster(old, new, jobs=[gang])).placements
    plain = replace(gang, launcher=LauncherName.NONE)
    assert nodes_of(plan_of(a_cluster(old, new, jobs=[plain]))) == {"a", "b"}


def test_where_no_agent_has_it_the_job_waits_and_names_agent_and_launcher():
    nodes = [a_node(a_gpu(), name=name, **OLD) for name in ("a", "b")]
    found = reason(plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, **TORCHRUN)])))
    assert found.code is ReasonCode.NODE_UNAVAILABLE
    assert "The agent of a (version 0.0.9) has no launcher torchrun" in found.sentence
    assert found.evidence["nodes"].keys() == {"a", "b"}
    assert found.unblocks.endswith("to a version with launcher torchrun")


def test_an_agent_that_is_updated_takes_the_job_in_the_next_pass_of_the_same_planner():
    """The planner keeps its tables from pass to pass while the hardware is the same."""
    cache, job = PassCache(), a_job(gpus=1, **TORCHRUN)
    before = a_cluster(a_node(a_gpu(), **OLD), jobs=[job])
    after = a_cluster(a_node(a_gpu()), jobs=[job])
    assert placed(plan(before, Policy(), cache=cache)) == []
    assert placed(plan(after, Policy(), cache=cache)) == ["1"]


def test_a_placement_is_refused_if_the_agent_was_replaced_by_an_older_one_meanwhile():
    job = a_job(gpus=1, **TORCHRUN)
    (place,) = plan_of(a_cluster(a_node(a_gpu()), jobs=[job])).placements
    refused = illegal_reason(place, job, a_cluster(a_node(a_gpu(), **OLD)))
    assert refused is not None and refused.code is ReasonCode.NODE_UNAVAILABLE
    assert illegal_reason(place, job, a_cluster(a_node(a_gpu()))) is None


def test_two_jobs_that_differ_in_their_launcher_do_not_share_a_verdict():
    """One behind the other in one queue, over one set of tables."""
    plain, launched = a_job("1", gpus=1), a_job("2", gpus=1, **TORCHRUN)
    assert eligibility_key(plain) != eligibility_key(launched)
    cluster = a_cluster(a_node(a_gpu(), a_gpu(), **OLD), jobs=[plain, launched])
    found = plan_of(cluster)
    assert placed(found) == ["1"]
    assert "torchrun" in reason(found, "2").sentence
