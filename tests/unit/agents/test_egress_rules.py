"""What jobs reach: a table of rules by the name of their bridge alone, and those of gangs."""

import pytest

from agents.contract.egress import EgressPolicy
from agents.overlay.egress import PREFIXES, bridge_device, egress_text
from agents.overlay.firewall import GangFirewall, firewall_text

TEXT = egress_text(["10.0.0.2", "2001:db8::53"])


def rules_of(policy, chain):
    part = TEXT.split(f"chain {chain} ")[1].split("  }\n")[0]
    return [line.strip() for line in part.splitlines() if f'"{PREFIXES[policy]}*"' in line]


@pytest.mark.parametrize("policy", list(EgressPolicy))
def test_the_node_and_the_metadata_are_shut_for_every_policy(policy):
    assert rules_of(policy, "to_node")[-1] == f'iifname "{PREFIXES[policy]}*" drop'
    beyond = rules_of(policy, "beyond")
    own, shut = f'oifname "{PREFIXES[policy]}*" accept', "169.254.0.0/16"
    assert beyond[0].endswith(own), "replicas of one bridge reach each other"
    if policy is not EgressPolicy.NONE:
        metadata = next(rule for rule in beyond if shut in rule)
        assert metadata.endswith(" drop")
        assert all("dport 53" in rule for rule in beyond[1 : beyond.index(metadata)])


def test_each_policy_drops_what_it_says():
    everything, internet, none = (rules_of(policy, "beyond") for policy in EgressPolicy)
    dropped = [rule for rule in everything if rule.endswith(" drop")]
    assert len(dropped) == 2, "but for metadata by IPv4 and IPv6, everything is reached"
    assert none[1:] == ['iifname "tsn-*" drop']
    private = next(n for n, rule in enumerate(internet) if "192.168.0.0/16" in rule)
    resolver = next(n for n, rule in enumerate(internet) if "10.0.0.2" in rule)
    assert resolver < private, "names are resolved"
    assert "dport 53" not in "".join([*none, *rules_of(EgressPolicy.NONE, "to_node")])


@pytest.mark.parametrize("chain", ["to_node", "beyond"])
def test_the_rules_of_a_limited_gang_come_before_those_of_all_gangs(chain):
    """The latter let gangs ask for names."""
    limited = (("tsb-000007", EgressPolicy.NONE), ("tsb-000008", EgressPolicy.INTERNET))
    bridges = tuple(bridge for bridge, _ in limited)
    text = firewall_text(GangFirewall(bridges, 14_789, resolvers=("10.0.0.2",), limited=limited))
    rules = text.split(f"chain {chain} ")[1].split("  }\n")[0]
    own = rules.index('iifname "tsb-000007" drop')
    names = "ip daddr 10.0.0.2 meta l4proto { tcp, udp } th dport 53 accept"
    assert own < rules.index(f'iifname "tsb-*" {names}')
    assert f'iifname "tsb-000007" {names}' not in rules
    assert rules.index(f'iifname "tsb-000008" {names}') < rules.index(f'iifname "tsb-*" {names}')


def test_devices_are_short_and_differ():
    names = {bridge_device(policy, f"tessera-{n}") for policy in EgressPolicy for n in range(99)}
    assert len(names) == 3 * 99
    assert max(map(len, names)) <= 15
