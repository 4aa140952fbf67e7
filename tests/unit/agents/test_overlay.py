"""The parts of an overlay that are worked out: names, packet sizes, key, tunnel, rules."""

import stat

import pytest

from agents.contract.gang_network import OverlayKind
from agents.host.programs import ProgramResult
from agents.overlay import offer
from agents.overlay.firewall import GangFirewall, LinkSources, firewall_text
from agents.overlay.interfaces import address_towards
from agents.overlay.key import public_key_of
from agents.overlay.links import remote_replicas
from agents.overlay.names import (
    bridge_name,
    gateway_of,
    link_id,
    link_name,
    replica_mac,
    tunnel_address,
    tunnel_name,
)
from agents.overlay.offer import OverlayRules, OverlayUnavailable, inner_mtu, overlay_offer
from agents.overlay.resolvers import read_resolvers
from agents.overlay.tunnel import TunnelPeer, tunnel_configuration
from tests.unit.agents.documents import KEY, NETWORK


@pytest.mark.parametrize("network_id", [1, 42, (1 << 24) - 1])
def test_names_of_devices_fit_the_kernel_and_lead_back_to_the_network(network_id):
    names = (bridge_name(network_id), link_name(network_id), tunnel_name("node-1"))
    assert max(map(len, names)) <= 15
    assert link_id(link_name(network_id)) == network_id
    assert link_id(bridge_name(network_id)) is None
    assert link_id("tsv-nobody") is None


def test_every_node_works_out_the_same_addresses():
    assert replica_mac("10.213.7.3") == "02:74:0a:d5:07:03"
    assert gateway_of("10.213.7.0/24") == "10.213.7.1"
    assert tunnel_address(KEY).startswith("fd74:6573:7365:7261:")


@pytest.mark.parametrize(
    ("kind", "version", "expected"),
    [("vxlan", 4, 1450), ("vxlan", 6, 1430), ("wireguard", 4, 1370), ("wireguard", 6, 1350)],
)
def test_the_packets_of_replicas_leave_room_for_the_headers(kind, version, expected):
    assert inner_mtu(OverlayKind(kind), version, 1_500) == expected


def test_a_key_is_kept_private_and_one_that_was_lost_is_made_anew(tmp_path):
    path = tmp_path / "overlay.key"
    first = public_key_of(path)
    assert public_key_of(path) == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("rubbish")
    assert public_key_of(path) != first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_peer_of_the_tunnel_may_send_from_its_own_address_alone():
    text = tunnel_configuration("private", 51_820, [TunnelPeer(KEY, "2001:db8::1", 51_821)])
    assert "Endpoint = [2001:db8::1]:51821\n" in text
    assert f"AllowedIPs = {tunnel_address(KEY)}/128\n" in text


def test_links_lead_to_the_replicas_of_other_nodes_alone():
    (other,) = remote_replicas(NETWORK)
    assert (other.address, other.node) == ("10.213.7.2", tunnel_address(KEY))


def test_packets_of_links_come_from_the_nodes_of_their_own_gang_alone():
    links = (LinkSources(7, ("192.0.2.1", "2001:db8::1")), LinkSources(8, ("192.0.2.3",)))
    text = firewall_text(GangFirewall(("tsb-000007", "tsb-000008"), 14_789, links))
    rules = [
        "ip saddr { 192.0.2.1 } udp dport 14789 @th,96,24 7 accept",
        "ip6 saddr { 2001:db8::1 } udp dport 14789 @th,96,24 7 accept",
        "ip saddr { 192.0.2.3 } udp dport 14789 @th,96,24 8 accept",
    ]
    assert max(map(text.index, rules)) < text.index("    udp dport 14789 drop")
    assert 'oifname != "tsb-*" udp dport 14789 drop' in text, "a container sends none"


def test_packets_of_tunnelled_links_come_out_of_the_tunnel_alone():
    text = firewall_text(GangFirewall(("tsb-000007",), 0))
    assert 'iifname != "tsw-*" meta nfproto ipv6 udp dport 4789 drop' in text
    assert 'oifname != "tsb-*" meta nfproto ipv6 udp dport 4789 drop' in text


def test_out_of_the_tunnel_come_packets_of_links_alone():
    """A site that opens one UDP port between its nodes has not opened their services."""
    text = firewall_text(GangFirewall(("tsb-000007",), 0, (LinkSources(7, ("fd74::1",)),)))
    link = "ip6 saddr { fd74::1 } udp dport 4789 @th,96,24 7 accept"
    assert text.index(link) < text.index('    iifname "tsw-*" drop')


def test_resolvers_are_open_for_names_wherever_they_are():
    """Here, on a gang's node, or at a link-local address, as in clouds."""
    resolvers = ("169.254.169.254", "192.0.2.1", "192.0.2.53")
    text = firewall_text(
        GangFirewall(("tsb-000007",), 14_789, nodes=("192.0.2.1",), resolvers=resolvers)
    )
    to_node, beyond = text.split("chain beyond")
    names = [
        f"ip daddr {each} meta l4proto {{ tcp, udp }} th dport 53 accept" for each in resolvers
    ]
    for chain, shut in ((to_node, 'iifname "tsb-*" drop'), (beyond, "ip daddr { 169.254.0.0/16")):
        assert max(map(chain.index, names)) < chain.index(shut)
    assert beyond.index(names[1]) < beyond.index("ip daddr 192.0.2.1 drop")


def test_resolvers_are_those_that_containers_ask(tmp_path):
    stub, real = tmp_path / "resolv.conf", tmp_path / "systemd.conf"
    stub.write_text("nameserver 127.0.0.53\noptions edns0\n")
    real.write_text("search lab\nnameserver 169.254.169.254\nnameserver\nnameserver fe80::1%eth0\n")
    assert read_resolvers([stub, real, tmp_path / "none"]) == ("169.254.169.254", "fe80::1")


def test_a_node_without_an_address_for_others_offers_nothing(tmp_path):
    with pytest.raises(OverlayUnavailable, match="no address"):
        overlay_offer(OverlayRules("lab", "auto", 14_789), "", tmp_path)


@pytest.mark.parametrize("off", ["1\n", None])
def test_a_machine_without_ipv6_offers_no_tunnel(monkeypatch, tmp_path, off):
    monkeypatch.setattr(offer, "installed", lambda program: f"/usr/sbin/{program}")
    monkeypatch.setattr(offer, "try_network_command", lambda *_: ProgramResult(""))
    monkeypatch.setattr(offer, "IPV6_OFF", switch := tmp_path / "disable_ipv6")
    if off:
        switch.write_text(off)
    assert offer.overlay_kind(OverlayRules("lab", "auto", 14_789)) is OverlayKind.VXLAN
    with pytest.raises(OverlayUnavailable, match="IPv6"):
        offer.overlay_kind(OverlayRules("lab", "wireguard", 14_789))
    switch.write_text("0\n")
    assert offer.overlay_kind(OverlayRules("lab", "auto", 14_789)) is OverlayKind.WIREGUARD


def test_an_address_on_loopback_is_none_for_others():
    assert address_towards(["http://127.0.0.1:8000"]) not in ("127.0.0.1", "::1")
