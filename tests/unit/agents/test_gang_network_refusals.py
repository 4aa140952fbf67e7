"""What a node refuses of a gang's network, whatever the portal says."""

from dataclasses import replace

import pytest

from agents.admission.gang_networks import gang_network_refusal
from agents.admission.local_checks import local_refusals
from agents.admission.policy import NodePolicy
from agents.contract.documents import NodeFacts, RuntimeKind
from agents.contract.gang_network import NodeOverlay, OverlayKind
from tests.unit.agents.documents import KEY, NETWORK, a_replica

OFFER = NodeOverlay("wireguard", 14_789, KEY, 1_350)
ADDRESS = NETWORK.peers[1].node_address


def refusal(network, offered=OFFER, address=ADDRESS, **fields):
    return gang_network_refusal(a_replica(gang_network=network, **fields), offered, address)


def with_peer(rank, **fields):
    peers = list(NETWORK.peers)
    peers[rank] = replace(peers[rank], **fields)
    return replace(NETWORK, peers=tuple(peers))


def test_a_network_whose_parts_fit_is_joined():
    assert refusal(NETWORK) == ""
    assert refusal(None) == ""


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (replace(NETWORK, kind=OverlayKind.VXLAN), "this node's overlay is wireguard"),
        (replace(NETWORK, subnet="10.213.7.3/24"), "is no IPv4 subnet"),
        (replace(NETWORK, subnet="8.8.8.0/24"), "is not a private subnet"),
        (replace(NETWORK, subnet="10.0.0.0/8"), "is not a private subnet"),
        (replace(NETWORK, peers=NETWORK.peers[:1]), "does not name each of its 2 ranks"),
        (replace(NETWORK, peers=NETWORK.peers[::-1]), "does not name each of its 2 ranks"),
        (replace(NETWORK, address="10.213.7.9"), "rank 1 has another address"),
        (with_peer(0, address="10.213.7.3"), "two ranks of the gang have the same address"),
        (with_peer(0, address="10.213.7.1"), "10.213.7.1 is no replica's address"),
        (with_peer(0, address="10.213.7.255"), "10.213.7.255 is no replica's address"),
        (with_peer(0, address="10.213.8.2"), "10.213.8.2 is no replica's address"),
        (with_peer(0, address="metadata"), "rank 0"),
        (with_peer(0, hostname="registry"), "registry is not the name of rank 0"),
        (with_peer(0, node_address="127.0.0.1"), "127.0.0.1 is no address of a node"),
        (with_peer(0, node_address="10.213.7.77"), "10.213.7.77 is no address of a node"),
        (with_peer(0, node_address="2001:db8::1%a\nflush ruleset"), "is no address of a node"),
        (with_peer(0, node_address="::ffff:192.0.2.1%a drop }"), "is no address of a node"),
        (with_peer(0, node_address="192.0.2.1 dev lo"), "rank 0"),
        (with_peer(1, node_address="192.0.2.9"), "rank 1 has another address"),
        (with_peer(0, public_key="not a key"), "its node has no WireGuard key"),
        (with_peer(0, public_key=""), "its node has no WireGuard key"),
    ],
)
def test_a_network_with_a_part_that_does_not_fit_is_refused(network, words):
    assert words in refusal(network)


def test_a_node_without_an_overlay_refuses_every_network():
    assert "has no overlay" in refusal(NETWORK, offered=None)


def test_the_nodes_checks_refuse_it_until_its_replica_has_started():
    replica = a_replica(gang_network=replace(NETWORK, subnet="8.8.8.0/24"), devices=())
    facts = NodeFacts(address=ADDRESS, overlay=OFFER)
    policy, kind = NodePolicy(), RuntimeKind.DOCKER
    refused = local_refusals([replica], set(), policy, kind, facts)
    assert refused[replica.id].code == "gang_network"
    assert local_refusals([replica], {replica.id}, policy, kind, facts) == {}
