"""fits() is asked once more under row locks: it refuses every place that the world overtook."""

from dataclasses import replace

import pytest

from agents.contract.documents import SliceKind
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import Topology
from tests.support.snapshots import (
    L40S,
    a_cluster,
    a_gpu,
    a_job,
    a_node,
    a_quota,
    a_slice,
    away,
    idle,
    illegal_reason,
    plan_of,
)

SLICE = a_job("1")
WHOLE = a_job("1", gpus=1)
PAIR = a_job("1", gpus=1, replicas=2)


def place_for(job, *nodes):
    (place,) = plan_of(a_cluster(*nodes, jobs=[job])).placements
    return place


CARVED = place_for(SLICE, a_node(a_gpu(), a_gpu(a_slice("4g.71gb", 0))))
REUSED = place_for(SLICE, a_node(a_gpu(idle("2g.35gb", 2))))
EMPTY = place_for(WHOLE, a_node(a_gpu()))
SPREAD = place_for(PAIR, a_node(a_gpu(), name="a"), a_node(a_gpu(), name="b"))
START = CARVED.replicas[0].devices[0].start


def refusal(place, job, *nodes, quotas=()):
    return illegal_reason(place, job, a_cluster(*nodes, quotas=quotas))


def test_a_place_still_fits_the_world_that_it_was_planned_for():
    assert refusal(CARVED, SLICE, a_node(a_gpu(), a_gpu(a_slice("4g.71gb", 0)))) is None
    assert refusal(REUSED, SLICE, a_node(a_gpu(idle("2g.35gb", 2)))) is None
    assert refusal(EMPTY, WHOLE, a_node(a_gpu())) is None
    assert refusal(SPREAD, PAIR, a_node(a_gpu(), name="a"), a_node(a_gpu(), name="b")) is None


RESOURCES, FRAGMENTATION = ReasonCode.RESOURCES, ReasonCode.FRAGMENTATION
OVERTAKEN = {
    "the node is away": (EMPTY, WHOLE, away(a_gpu()), ReasonCode.NODE_UNAVAILABLE),
    "the node is away, nobody knows why": (
        EMPTY,
        WHOLE,
        a_node(a_gpu(), available=False),
        ReasonCode.NODE_UNAVAILABLE,
    ),
    "the node is gone": (EMPTY, WHOLE, a_node(a_gpu(), name="x"), RESOURCES),
    "the GPU is gone": (EMPTY, WHOLE, a_node(), RESOURCES),
    "the GPU is faulted": (EMPTY, WHOLE, a_node(a_gpu(healthy=False)), RESOURCES),
    "the GPU is held": (EMPTY, WHOLE, a_node(a_gpu(a_slice(""))), RESOURCES),
    "the GPU was carved": (EMPTY, WHOLE, a_node(a_gpu(a_slice("1g.18gb", 6))), RESOURCES),
    "an idle slice is on it": (EMPTY, WHOLE, a_node(a_gpu(idle("1g.18gb", 6))), RESOURCES),
    "the CPU is taken": (EMPTY, WHOLE, a_node(a_gpu(), cpu_free_milli=999), RESOURCES),
    "the memory is taken": (EMPTY, WHOLE, a_node(a_gpu(), memory_free_mib=1_023), RESOURCES),
    "the slice is held": (REUSED, SLICE, a_node(a_gpu(a_slice("2g.35gb", 2))), RESOURCES),
    "the slice is going": (REUSED, SLICE, a_node(a_gpu(idle(start=2, ready=False))), RESOURCES),
    "the slice is gone": (REUSED, SLICE, a_node(a_gpu()), RESOURCES),
    "the slice faulted": (REUSED, SLICE, a_node(a_gpu(idle(start=2), healthy=False)), RESOURCES),
    "the slots are taken": (
        *(CARVED, SLICE),
        *(a_node(a_gpu(), a_gpu(a_slice("4g.71gb", 0), a_slice("1g.18gb", START))), FRAGMENTATION),
    ),
    "the GPU is whole now": (CARVED, SLICE, a_node(a_gpu(), a_gpu(a_slice(""))), FRAGMENTATION),
    "another board": (CARVED, SLICE, a_node(a_gpu(), a_gpu(board=L40S)), FRAGMENTATION),
    "no compute slice is left": (
        *(CARVED, SLICE),
        *(a_node(a_gpu(), a_gpu(a_slice("4g.71gb", 0), a_slice("3g.71gb", 4))), FRAGMENTATION),
    ),
}


@pytest.mark.parametrize("case", OVERTAKEN)
def test_a_place_that_was_overtaken_is_refused_with_the_reason(case):
    place, job, node, code = OVERTAKEN[case]
    said = refusal(place, job, node)
    assert said is not None
    assert said.code is code


def test_a_slice_that_was_made_anew_elsewhere_under_its_id_is_not_the_same():
    moved = a_gpu(idle("2g.35gb", 4, id="2g.35gb@2"))
    other = a_gpu(idle("1g.35gb", 2, id="2g.35gb@2"))
    for gpu in (moved, other):
        assert refusal(REUSED, SLICE, a_node(gpu)).code is RESOURCES


def test_a_quota_that_filled_up_meanwhile_refuses_the_whole_gang():
    nodes = (a_node(a_gpu(), name="a"), a_node(a_gpu(), name="b"))
    assert refusal(SPREAD, PAIR, *nodes, quotas=[a_quota(gpus=2)]) is None
    for quota in (a_quota(gpus=3, used=1.5), a_quota("p", "u", gpus=1)):
        said = refusal(SPREAD, PAIR, *nodes, quotas=[quota])
        assert said.code in (ReasonCode.QUOTA_PROJECT, ReasonCode.QUOTA_USER)
        assert said.evidence["needed_units"] == 112_000


def test_nodes_that_left_their_common_network_are_refused():
    nodes = (a_node(a_gpu(), name="a"), a_node(a_gpu(), name="b", fabric="other"))
    assert refusal(SPREAD, PAIR, *nodes).code is ReasonCode.TOPOLOGY


def test_a_gang_that_must_be_near_is_refused_on_two_nodes():
    nodes = (a_node(a_gpu(), name="a"), a_node(a_gpu(), name="b"))
    near = replace(PAIR, topology=Topology.SAME_NODE)
    assert refusal(SPREAD, near, *nodes).code is ReasonCode.TOPOLOGY


def test_a_place_without_every_rank_is_refused():
    nodes = (a_node(a_gpu(), name="a"), a_node(a_gpu(), name="b"))
    lone = replace(SPREAD, replicas=SPREAD.replicas[:1])
    twice = replace(SPREAD, replicas=(SPREAD.replicas[0],) * 2)
    for place in (lone, twice):
        assert "every rank once" in refusal(place, PAIR, *nodes).sentence


def test_a_device_of_another_node_is_refused():
    nodes = (a_node(a_gpu(), name="a"), a_node(a_gpu(), name="b"))
    first, second = SPREAD.replicas
    crossed = (replace(first, devices=second.devices), replace(second, devices=first.devices))
    assert refusal(replace(SPREAD, replicas=crossed), PAIR, *nodes).code is RESOURCES


def test_two_replicas_on_one_device_are_refused():
    first, second = SPREAD.replicas
    shared = replace(second, node=first.node, devices=first.devices)
    place = replace(SPREAD, replicas=(first, shared))
    assert refusal(place, PAIR, a_node(a_gpu(), name="a")).code is RESOURCES
    assert first.devices[0].kind is SliceKind.GPU
