"""The pairs of a ring of nodes, in rounds."""

from uuid import UUID

import pytest

from portal.preflights.pair_rounds import disjoint_rounds, gang_rounds, ring_neighbours


def test_two_nodes_are_one_pair_and_more_are_a_ring():
    assert ring_neighbours("ab") == [("a", "b")]
    assert ring_neighbours("abc") == [("a", "b"), ("b", "c"), ("c", "a")]


@pytest.mark.parametrize("count", range(3, 66))
def test_each_neighbour_is_measured_once_and_no_node_twice_in_a_round(count):
    nodes = list(range(count))
    rounds = disjoint_rounds(nodes)
    assert len(rounds) == 2 + count % 2
    for pairs in rounds:
        members = [node for pair in pairs for node in pair]
        assert len(members) == len(set(members))
    measured = [frozenset(pair) for pairs in rounds for pair in pairs]
    assert len(measured) == len(set(measured)) == count
    assert set(measured) == {frozenset((node, (node + 1) % count)) for node in nodes}


def test_a_pair_is_named_by_the_ranks_of_its_nodes_the_lower_name_first():
    a, b, c = (UUID(int=number) for number in (3, 2, 1))
    found = gang_rounds([a, b, c], {a: [0, 1], b: [3], c: [2]})
    assert found.argument == "0+1:3/3:2/0+1:2"
    assert found.nodes == {"0+1:3": (a, b), "3:2": (b, c), "0+1:2": (a, c)}
