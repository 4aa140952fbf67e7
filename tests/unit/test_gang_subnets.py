"""Subnets of gangs: sized by replicas, never overlapping, free again where blocks are."""

import random
from ipaddress import IPv4Network
from itertools import combinations

import pytest

from portal.gang_networks.subnets import FreeSubnets, rank_address, subnet_addresses, subnet_blocks

RANGE = IPv4Network("10.213.0.0/24")


@pytest.mark.parametrize(
    ("replicas", "addresses"), [(2, 8), (5, 8), (6, 16), (13, 16), (64, 128), (4_096, 8_192)]
)
def test_a_subnet_has_an_address_for_each_rank_the_gateway_and_its_own_two(replicas, addresses):
    assert subnet_addresses(replicas) == addresses
    subnet = IPv4Network((int(RANGE.network_address) >> 13 << 13, 33 - addresses.bit_length()))
    last = rank_address(subnet, replicas - 1)
    assert subnet.network_address + 1 < rank_address(subnet, 0) <= last < subnet.broadcast_address


def test_subnets_of_mixed_sizes_fill_the_range_and_never_overlap():
    order = random.Random(18)
    free, taken = FreeSubnets(RANGE, ()), []
    while free.largest_gang():
        replicas = order.randint(1, free.largest_gang())
        subnet = free.take(replicas, turn=order.randrange(1_000))
        assert subnet is not None, "room was promised"
        assert subnet.subnet_of(RANGE)
        assert subnet.num_addresses >= replicas + 3
        taken.append(subnet)
    assert free.take(2, turn=0) is None
    assert sum(subnet.num_addresses for subnet in taken) == RANGE.num_addresses
    assert not any(one.overlaps(other) for one, other in combinations(taken, 2))


def test_blocks_of_another_range_take_nothing_and_those_of_this_one_do():
    elsewhere = subnet_blocks(IPv4Network("10.214.0.0/24"))
    assert FreeSubnets(RANGE, elsewhere).largest_gang() == 253
    half = subnet_blocks(IPv4Network("10.213.0.128/25"))
    assert FreeSubnets(RANGE, half).largest_gang() == 125
    assert FreeSubnets(RANGE, half).take(200, turn=0) is None


def test_the_next_turn_begins_elsewhere():
    subnets = {FreeSubnets(RANGE, ()).take(2, turn=turn) for turn in range(32)}
    assert len(subnets) == 32
