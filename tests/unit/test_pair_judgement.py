"""What is expected between two nodes, and from when on they are slow."""

import pytest

from agents.contract.codec import encode
from agents.contract.rank_network import RankNetwork
from agents.contract.topology import NodeTopology, ReportedNic
from portal.node_pairs.judgement import (
    Expectation,
    ExpectationSource,
    NodeLink,
    PairVerdict,
    expectation_of,
    node_link,
    verdict_of,
)

IB = "InfiniBand"


def nic(name="mlx5_0", mb=25_000, rail_of=(0,), **fields):
    return ReportedNic(
        name, IB, **{"rdma": True, "up": True} | fields, mb_per_second=mb, rail_of=rail_of
    )


def reported(*nics, rdma=IB):
    topology = encode(NodeTopology(gpus=(0, 1), nics=nics))
    return node_link(topology, {"rank_network": encode(RankNetwork(rdma=rdma))})


def test_the_rails_that_are_up_count_and_no_other_cards():
    cards = (
        nic(),
        nic("mlx5_1", rail_of=(1,)),
        nic("mlx5_2", rail_of=()),
        nic("mlx5_3", up=False),
        nic("eth0", rdma=False),
    )
    assert reported(*cards) == NodeLink(IB, 50_000)


@pytest.mark.parametrize(
    ("topology", "facts"),
    [
        ({}, {}),
        ({"nics": "no list"}, {}),
        ({}, {"rank_network": {"newer": 1}}),
        ({}, {"rank_network": None}),
    ],
)
def test_a_node_that_reports_nothing_readable_has_no_link(topology, facts):
    assert node_link(topology, facts) == NodeLink("", 0)


def test_the_slower_node_says_what_to_expect_where_both_offer_the_same():
    line = Expectation(50_000, ExpectationSource.LINE_RATE)
    assert expectation_of(NodeLink(IB, 100_000), NodeLink(IB, 50_000)) == line
    for other in (NodeLink("Ethernet", 50_000), NodeLink("", 50_000), NodeLink(IB, 0)):
        assert expectation_of(NodeLink(IB, 100_000), other) == Expectation()


@pytest.mark.parametrize(
    ("reached", "wrong", "expected", "verdict"),
    [
        (80_000, 0, 100_000, PairVerdict.OK),
        (35_000, 0, 100_000, PairVerdict.OK),
        (34_999, 0, 100_000, PairVerdict.SLOW),
        (30_000, 0, 100_000, PairVerdict.SLOW),
        (80_000, 1, 100_000, PairVerdict.WRONG),
        (1, 0, 0, PairVerdict.UNJUDGED),
        (1, 9, 0, PairVerdict.WRONG),
    ],
)
def test_below_35_percent_is_slow_and_wrong_sums_are_wrong_at_any_speed(
    reached, wrong, expected, verdict
):
    assert verdict_of(reached, wrong, expected) is verdict
