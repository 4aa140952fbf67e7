"""Which GPUs of a node a gang gets, by how they are joined."""

from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.contract.topology import GpuPair, NodeTopology
from scheduler.core.model.links import (
    MAX_EXACT_RING,
    UNKNOWN,
    Links,
    best_set,
    bottleneck,
    links_of,
    ring_by_nvlink,
)

FAST, SLOW = 450_000, 20_000


def by_groups(*groups, gpus=8):
    """Links of a node whose GPUs are joined by NVLink inside each group, and by PCIe across."""
    pairs = []
    for one, other in combinations(range(gpus), 2):
        near = any(one in group and other in group for group in groups)
        rate = FAST if near else SLOW
        pairs.append(GpuPair(one, other, "SYS", 4 if near else 0, False, rate))
    return links_of(NodeTopology(gpus=tuple(range(gpus)), pairs=tuple(pairs)))


def free(*indexes, numa=lambda index: index // 4):
    return tuple((index, numa(index)) for index in indexes)


def test_a_node_that_tells_nothing_has_no_bandwidth_and_forbids_nothing():
    assert links_of(NodeTopology()) is UNKNOWN
    assert bottleneck(UNKNOWN, (0, 1)) == 0
    assert ring_by_nvlink(UNKNOWN, (0, 1))


def test_two_groups_joined_by_pcie_are_as_fast_as_pcie():
    links = by_groups({0, 1, 2, 3}, {4, 5, 6, 7})
    assert bottleneck(links, (0, 1, 2, 3)) == FAST
    assert bottleneck(links, (0, 1, 4, 5)) == SLOW


def test_a_ring_needs_two_links_at_every_gpu():
    """Pairs by bridges: three GPUs of two pairs cannot close a fast ring."""
    links = by_groups({0, 1}, {2, 3}, gpus=4)
    assert bottleneck(links, (0, 1)) == FAST
    assert bottleneck(links, (0, 1, 2)) == SLOW


def test_equal_nodes_share_one_object():
    assert by_groups({0, 1, 2, 3}) is by_groups({0, 1, 2, 3})


def test_a_pair_is_taken_where_nvlink_joins_it():
    links = by_groups({1, 6}, gpus=8)
    assert best_set(links, free(0, 1, 2, 6, 7), 2) == (1, 6)


def test_of_equally_fast_sets_one_numa_node_that_is_nearly_full_is_taken():
    links = by_groups(set(range(8)))
    assert best_set(links, free(0, 1, 2, 3, 6, 7), 2) == (6, 7)


def test_the_same_rails_as_on_the_node_before_are_taken_where_it_costs_nothing():
    links = by_groups(set(range(8)))
    assert best_set(links, free(*range(8), numa=lambda _: 0), 2, (4, 5)) == (4, 5)


def test_what_is_left_can_still_run_a_fast_ring():
    """One GPU is taken from the pair that is broken already."""
    links = by_groups({0, 1}, {2, 3}, gpus=4)
    assert best_set(links, free(0, 2, 3, numa=lambda _: 0), 1) == (0,)


def test_a_ring_by_nvlink_crosses_no_pcie():
    links = by_groups({0, 1, 2, 3}, {4, 5, 6, 7})
    assert ring_by_nvlink(links, (0, 1, 3))
    assert not ring_by_nvlink(links, (3, 4))


def test_a_ring_by_nvlink_needs_not_every_pair():
    """Four GPUs, each bridged to two others."""
    square = ((0, 1), (1, 2), (2, 3), (0, 3))
    pairs = tuple(GpuPair(a, b, "SYS", 4, False, FAST) for a, b in square)
    links = links_of(NodeTopology(gpus=(0, 1, 2, 3), pairs=pairs))
    assert ring_by_nvlink(links, (0, 1, 2, 3))
    assert not ring_by_nvlink(links, (0, 2))


def test_gpus_that_the_node_did_not_tell_of_have_no_known_rate():
    links = by_groups({0, 1}, gpus=2)
    assert bottleneck(links, (0, 5)) == 0
    assert not ring_by_nvlink(links, (0, 5))


RATES = st.sampled_from([0, SLOW, 50_000, FAST])


@given(st.integers(2, 6).flatmap(lambda n: st.lists(RATES, min_size=n * n, max_size=n * n)))
def test_the_bottleneck_is_that_of_the_best_of_all_rings(flat):
    size = int(len(flat) ** 0.5)
    rates = tuple(
        tuple(flat[min(a, b) * size + max(a, b)] if a != b else 0 for b in range(size))
        for a in range(size)
    )
    rings = ((0, *rest) for rest in permutations(range(1, size)))
    best = max(min(rates[a][b] for a, b in zip(r, (*r[1:], r[0]), strict=True)) for r in rings)
    assert bottleneck(Links(rates, ()), tuple(range(size))) == best


@pytest.mark.parametrize("gpus", [MAX_EXACT_RING + 1, 16])
def test_a_switched_node_of_many_gpus_is_answered_at_once(gpus):
    links = by_groups(set(range(gpus)), gpus=gpus)
    assert bottleneck(links, tuple(range(gpus))) == FAST
    assert len(best_set(links, free(*range(gpus)), gpus // 2)) == gpus // 2
