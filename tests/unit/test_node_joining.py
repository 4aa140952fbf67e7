"""Which addresses a node may name for other nodes."""

import pytest

from portal.gang_networks.joining import address_problem


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "224.0.0.5", "0.0.0.0", "169.254.169.254", "255.255.255.255", "::1", "::"),
        *("fe80::1", "fe80::1%eth0", "fd00:ec2::254", "::ffff:127.0.0.1", "ff02::1"),
        *("2001:db8::7%a\nflush ruleset", "::ffff:192.0.2.7%a\nflush ruleset"),
        *("100.100.100.200", "10.213.7.7", "::ffff:10.213.7.7", "gpu01", "1.2.3.4; ls", ""),
    ],
)
def test_an_address_that_other_nodes_cannot_use_is_refused_by_name(address):
    problem = address_problem(address)
    assert problem is not None
    assert problem.values["address"] == address


@pytest.mark.parametrize(
    "address", ["10.0.0.7", "192.0.2.7", "203.0.113.9", "2001:db8::7", "fd12::7"]
)
def test_addresses_of_hosts_are_taken(address):
    assert address_problem(address) is None
