"""What the replicas of gangs reach, as one nftables table: their gang, and what is beyond this
node. Never this node's own services, link-local addresses such as the metadata of a cloud at
169.254.169.254, another network of this node, or the links of gangs.

The table is replaced whole, in one transaction, and is there while there is a gang. A packet that
it drops is dropped, whatever other tables say. Pure, but for the three functions that call `nft`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address

from agents.contract.egress import EgressPolicy
from agents.overlay.commands import NFT, network_command, try_network_command
from agents.overlay.egress import (
    beyond_rules,
    metadata_dropped,
    names_accepted,
    to_node_rules,
)
from agents.overlay.links import TUNNELLED_PORT
from agents.overlay.names import BRIDGE_PREFIX, TUNNEL_PREFIX

TABLE = "tessera_gangs"
# The VXLAN's id in a packet: behind the UDP header, flags and reserved bits (RFC 7348, section 5).
VNI_BITS = "96,24"
# Before Docker's chains, which have 0.
PRIORITY = -10
FROM_GANGS = f'iifname "{BRIDGE_PREFIX}*"'

_EgressRules = Callable[[EgressPolicy, str, Iterable[str]], Iterator[str]]


@dataclass(frozen=True, slots=True, order=True)
class LinkSources:
    """From where the packets of one gang may come."""

    network_id: int
    # Those of its other nodes, inside of the tunnel if there is one.
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GangFirewall:
    """What the rules depend on."""

    # Of the gangs on this node.
    bridges: tuple[str, ...]
    # The UDP port of this node's links; 0 if they are inside of a tunnel.
    port: int
    # Of each gang.
    links: tuple[LinkSources, ...] = ()
    # Nodes with which gangs are shared.
    nodes: tuple[str, ...] = ()
    # Where this node asks for names, and so do its replicas.
    resolvers: tuple[str, ...] = ()
    # Bridges of gangs that may not reach everything.
    limited: tuple[tuple[str, EgressPolicy], ...] = ()


def firewall_text(firewall: GangFirewall) -> str:
    """For `nft -f`: the table instead of the one that is there, if any."""
    to_node = [*_links_in(firewall), *_limits(firewall, to_node_rules), *_services(firewall)]
    beyond = [*_limits(firewall, beyond_rules), *_links_out(firewall), *_apart(firewall.bridges)]
    blocks = [_chain("to_node", "input", to_node), _chain("beyond", "forward", beyond)]
    return f"{_removal()}table inet {TABLE} {{\n{''.join(blocks)}}}\n"


def firewall_apply(firewall: GangFirewall) -> None:
    """Raises NetworkRefused."""
    network_command(NFT, "-f", "-", input_text=firewall_text(firewall))


def firewall_stands() -> bool:
    """Whether the table is there. Its rules are nobody's but ours."""
    return not try_network_command(NFT, "list", "table", "inet", TABLE).failure


def firewall_remove() -> None:
    """No effect if it is gone."""
    try_network_command(NFT, "delete", "table", "inet", TABLE)


def _removal() -> str:
    # Added first, so that there is something to delete.
    return f"add table inet {TABLE}\ndelete table inet {TABLE}\n"


def _chain(name: str, hook: str, rules: Iterable[str]) -> str:
    lines = (f"    {rule}\n" for rule in rules)
    head = f"    type filter hook {hook} priority {PRIORITY}; policy accept;\n"
    return f"  chain {name} {{\n{head}{''.join(lines)}  }}\n"


def _links_in(firewall: GangFirewall) -> list[str]:
    """Packets of a link come from the nodes of its gang alone, out of the tunnel if there is one.
    Nothing else comes out of it: the site may allow no more between its nodes. In the tunnel, links
    use IPv6; by IPv4 the port is that of other overlays, such as Docker's."""
    tunnel = f'"{TUNNEL_PREFIX}*"'
    if firewall.port:
        return [*_links_open(firewall.links, firewall.port), f"udp dport {firewall.port} drop"]
    return [
        f"iifname != {tunnel} meta nfproto ipv6 udp dport {TUNNELLED_PORT} drop",
        *_links_open(firewall.links, TUNNELLED_PORT),
        f"iifname {tunnel} drop",
    ]


def _links_open(links: Iterable[LinkSources], port: int) -> Iterator[str]:
    """A node's other gangs are none of the gangs that it shares with this one, and a node that has
    left a gang hides its containers behind its address, without a firewall of ours."""
    for link in sorted(links):
        for family, version in (("ip", 4), ("ip6", 6)):
            sources = [each for each in link.addresses if ip_address(each).version == version]
            if sources:
                yield (
                    f"{family} saddr {{ {', '.join(sorted(sources))} }} udp dport {port} "
                    f"@th,{VNI_BITS} {link.network_id} accept"
                )


def _services(firewall: GangFirewall) -> list[str]:
    answers = f"{FROM_GANGS} ct state established,related accept"
    return [answers, *names_accepted(FROM_GANGS, firewall.resolvers), f"{FROM_GANGS} drop"]


def _links_out(firewall: GangFirewall) -> list[str]:
    """Nothing that this node forwards is a link's packet: as that of a container it would leave
    with this node's address, which the other nodes trust."""
    tunnelled = f"meta nfproto ipv6 udp dport {TUNNELLED_PORT}"
    link = f"udp dport {firewall.port}" if firewall.port else tunnelled
    return [
        f'oifname != "{BRIDGE_PREFIX}*" {link} drop',
        f'iifname "{TUNNEL_PREFIX}*" drop',
        f'oifname "{TUNNEL_PREFIX}*" drop',
        # Before the metadata: those of clouds have link-local addresses, too.
        *names_accepted(FROM_GANGS, firewall.resolvers),
        *metadata_dropped(FROM_GANGS),
        *_nodes_shut(firewall.nodes),
    ]


def _nodes_shut(nodes: Iterable[str]) -> Iterator[str]:
    """The services of the other nodes are as shut as those of this one."""
    for node in sorted(nodes):
        family = "ip" if ip_address(node).version == 4 else "ip6"
        yield f"{FROM_GANGS} {family} daddr {node} drop"


def _apart(bridges: Iterable[str]) -> list[str]:
    """From outside of a gang's bridge come answers only."""
    return [
        f'oifname "{bridge}" iifname != "{bridge}" ct state != {{ established, related }} drop'
        for bridge in sorted(bridges)
    ]


def _limits(firewall: GangFirewall, rules_of: _EgressRules) -> list[str]:
    return [
        rule
        for bridge, policy in firewall.limited
        for rule in rules_of(policy, f'"{bridge}"', firewall.resolvers)
    ]
