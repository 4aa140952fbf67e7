"""What can never run on the cluster as it is gets the reason `impossible`, and only that does."""

import pytest

from scheduler.core.model.reasons import ReasonClass, ReasonCode
from scheduler.core.model.snapshot import Topology
from scheduler.core.placement.feasibility import infeasible_reason
from tests.support.snapshots import (
    A30,
    L40S,
    a_cluster,
    a_gpu,
    a_job,
    a_node,
    a_quota,
    a_slice,
    away,
    plan_of,
    reason,
)

SMALL = {"cpu_total_milli": 4_000, "memory_total_mib": 8_192}
TWO_NODES = (
    a_node(a_gpu(), a_gpu(), name="a"),
    a_node(a_gpu(), name="b"),
    a_node(a_gpu(board=A30), name="c", **SMALL),
)
NEAR = {"topology": Topology.SAME_NODE}
NEVER = {
    "profile of another board": ({"mig": "1g.5gb"}, "No GPU here has the profile 1g.5gb"),
    "profile of no board": ({"mig": "9g.999gb"}, "Profiles here: 1g.18gb"),
    "too much memory": ({"device_mib": 200_000}, "the largest has 143771 MB"),
    "a model that is not here": ({"gpus": 1, "models": ("B200",)}, "There is no B200 here"),
    "a profile of the wrong model": ({"mig": "2g.35gb", "models": ("A30",)}, "2g.35gb"),
    "more GPUs than any node": ({"gpus": 3}, "No node has 3 H200-141GB GPUs"),
    "more replicas than GPUs": (
        {"gpus": 1, "replicas": 4, "models": ("H200",)},
        "cluster has GPUs for 3",
    ),
    "more slices than boards make": ({"mig": "2g.35gb", "replicas": 10}, "GPUs for 9"),
    "more near than a node has": (
        {"gpus": 1, "replicas": 3, **NEAR},
        "largest node has GPUs for 2",
    ),
    "more CPU than a node": ({"cpu_milli": 64_001}, "has 64.001 CPUs; the largest has 64"),
    "more memory than a node": (
        {"memory_mib": 600_000},
        "has 600000 MB of memory; the largest has 500 GB",
    ),
    "more CPU than the A30's node": (
        {"mig": "1g.6gb", "cpu_milli": 4_001},
        "has 4.001 CPUs; the largest has 4",
    ),
    "nine of 2 CPUs": (
        {"mig": "1g.6gb", "replicas": 9, "cpu_milli": 2_000},
        "needs 9 replicas with 2 CPUs each; the whole cluster has CPUs for 2",
    ),
    "a share of more memory": ({"mps": (25, 150_000)}, "150000 MB"),
}


@pytest.mark.parametrize("case", NEVER)
def test_what_can_never_run_is_said_at_once_with_what_there_is(case):
    fields, sentence = NEVER[case]
    snapshot = a_cluster(*TWO_NODES, jobs=[a_job(**fields)])
    said = reason(plan_of(snapshot))
    assert said.code is ReasonCode.IMPOSSIBLE
    assert said.reason_class is ReasonClass.CHANGE
    assert sentence in said.sentence
    assert infeasible_reason(snapshot.jobs[0], snapshot) == said


def test_numbers_of_a_refusal_stand_in_its_evidence():
    said = infeasible_reason(a_job(gpus=3), a_cluster(*TWO_NODES))
    assert said.evidence == {"needed": 3, "largest": 2}
    said = infeasible_reason(a_job(gpus=1, models=("B200",)), a_cluster(*TWO_NODES))
    assert said.evidence == {"boards": ["A30-24GB", "H200-141GB"]}


BUSY = a_gpu(a_slice(""))
POSSIBLE = {
    "a full cluster": (a_node(BUSY, BUSY), {"gpus": 2}),
    "a node that is away": (away(a_gpu(), a_gpu()), {"gpus": 2}),
    "an unhealthy GPU": (a_node(a_gpu(healthy=False)), {"gpus": 1}),
    "a GPU in slices": (a_node(a_gpu(a_slice("1g.18gb", 0))), {"gpus": 1}),
    "no CPU free now": (a_node(a_gpu(), cpu_free_milli=0), {"gpus": 1}),
    "no GPU at all yet": (a_node(), {"mig": "9g.999gb"}),
    "as many slices as a board makes": (a_node(a_gpu()), {"mig": "1g.18gb", "replicas": 7}),
}


@pytest.mark.parametrize("case", POSSIBLE)
def test_what_only_has_to_wait_is_not_refused(case):
    node, fields = POSSIBLE[case]
    assert infeasible_reason(a_job(**fields), a_cluster(node)) is None


def test_a_gang_larger_than_its_largest_network_can_never_run():
    """Ranks meet inside one network: three nodes in two of them are no room for three replicas."""
    nodes = [a_node(a_gpu(), name=n, fabric=f) for n, f in (("a", "f"), ("b", "f"), ("c", "g"))]
    said = reason(plan_of(a_cluster(*nodes, jobs=[a_job(gpus=1, replicas=3)])))
    assert said.code is ReasonCode.IMPOSSIBLE
    assert said.evidence == {"needed": 3, "largest": 2}
    assert infeasible_reason(a_job(gpus=1, replicas=2), a_cluster(*nodes)) is None


def test_one_way_that_could_run_is_enough():
    nodes = (a_node(a_gpu(board=A30), name="a"), a_node(*[a_gpu(board=L40S)] * 2, name="b"))
    assert infeasible_reason(a_job(gpus=2), a_cluster(*nodes)) is None
    assert infeasible_reason(a_job(device_mib=20_000, replicas=3), a_cluster(*nodes)) is not None


def test_more_than_a_quota_may_ever_hold_is_refused_with_both_amounts():
    quotas = (a_quota(gpus=1), a_quota("p", "u", gpus=0.5))
    said = infeasible_reason(a_job(gpus=2), a_cluster(*TWO_NODES, quotas=quotas))
    assert said.code is ReasonCode.IMPOSSIBLE
    assert "This needs 2 GPUs; p may use at most 1" in said.sentence
    assert said.evidence == {"needed_units": 112_000, "limit_units": 56_000}
    said = infeasible_reason(a_job(gpus=1), a_cluster(*TWO_NODES, quotas=quotas))
    assert "u in p may use at most 0.50" in said.sentence
    assert (
        infeasible_reason(a_job(gpus=1, user="other"), a_cluster(*TWO_NODES, quotas=quotas)) is None
    )


def test_a_quota_that_is_only_used_up_refuses_nothing():
    assert (
        infeasible_reason(a_job(gpus=1), a_cluster(*TWO_NODES, quotas=[a_quota(gpus=1, used=1)]))
        is None
    )


def test_an_unknown_board_is_given_whole_and_never_in_slices():
    snapshot = a_cluster(a_node(a_gpu(board="NVIDIA Future")))
    assert infeasible_reason(a_job(gpus=1), snapshot) is None
    said = infeasible_reason(a_job(mig="2g.35gb"), snapshot)
    assert "these boards do not support MIG" in said.sentence
