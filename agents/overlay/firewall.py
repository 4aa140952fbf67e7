"""What the replicas of gangs reach, as one nftables table: their gang, and what is beyond this
node. Never this node's own services, link-local addresses such as the metadata of a cloud at
169.254.169.254, another network of this node, or the links of gangs.

The table is replaced whole, in one transaction, and is there while there is a gang. A packet that
it drops is dropped, whatever other tables say. Pure, but for the three functions that call `nft`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address

from agents.overlay.commands import NFT, network_command, try_network_command
from agents.overlay.links import TUNNELLED_PORT
from agents.overlay.names import BRIDGE_PREFIX, TUNNEL_PREFIX

TABLE = "tessera_gangs"
# Before Docker's chains, which have 0.
PRIORITY = -10
LINK_LOCAL_4, LINK_LOCAL_6 = "169.254.0.0/16", "{ fe80::/10, fd00:ec2::254 }"


@dataclass(frozen=True, slots=True)
class GangFirewall:
    """What the rules depend on."""

    # Of the gangs on this node.
    bridges: tuple[str, ...]
    # The UDP port of this node's links; 0 if they are inside of a tunnel.
    port: int
    # Nodes with which gangs are shared.
    nodes: tuple[str, ...] = ()
    # Where this node asks for names, and so do its replicas.
    resolvers: tuple[str, ...] = ()


def firewall_text(firewall: GangFirewall) -> str:
    """For `nft -f`: the table instead of the one that is there, if any."""
    blocks = [
        _chain("to_node", "input", [*_links_in(firewall), *_services(firewall)]),
        _chain("beyond", "forward", [*_links_out(firewall), *_apart(firewall.bridges)]),
    ]
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
    """Packets of links come from the nodes of gangs alone, or out of the tunnel. Nothing else comes
    out of it: the site may allow no more between its nodes. In the tunnel, links use IPv6; by IPv4
    the port is that of other overlays, such as Docker's."""
    if not firewall.port:
        link = f"meta nfproto ipv6 udp dport {TUNNELLED_PORT}"
        tunnel = f'"{TUNNEL_PREFIX}*"'
        return [
            f"iifname != {tunnel} {link} drop",
            f"iifname {tunnel} udp dport != {TUNNELLED_PORT} drop",
            f"iifname {tunnel} meta l4proto != udp drop",
        ]
    by_family = {"ip": 4, "ip6": 6}
    return [
        _from_others(family, sorted(n for n in firewall.nodes if ip_address(n).version == version))
        + f"udp dport {firewall.port} drop"
        for family, version in by_family.items()
    ]


def _from_others(family: str, nodes: list[str]) -> str:
    protocol = f"meta nfproto {'ipv4' if family == 'ip' else 'ipv6'} "
    return f"{protocol}{family} saddr != {{ {', '.join(nodes)} }} " if nodes else protocol


def _services(firewall: GangFirewall) -> list[str]:
    from_gangs = f'iifname "{BRIDGE_PREFIX}*"'
    answers = f"{from_gangs} ct state established,related accept"
    return [answers, *_names(firewall), f"{from_gangs} drop"]


def _names(firewall: GangFirewall) -> Iterator[str]:
    """Those of clouds have link-local addresses, too."""
    for resolver in sorted(firewall.resolvers):
        family = "ip" if ip_address(resolver).version == 4 else "ip6"
        yield (
            f'iifname "{BRIDGE_PREFIX}*" {family} daddr {resolver} '
            "meta l4proto { tcp, udp } th dport 53 accept"
        )


def _links_out(firewall: GangFirewall) -> list[str]:
    """Nothing that this node forwards is a link's packet: as that of a container it would leave
    with this node's address, which the other nodes trust."""
    tunnelled = f"meta nfproto ipv6 udp dport {TUNNELLED_PORT}"
    link = f"udp dport {firewall.port}" if firewall.port else tunnelled
    return [
        f'oifname != "{BRIDGE_PREFIX}*" {link} drop',
        f'iifname "{TUNNEL_PREFIX}*" drop',
        f'oifname "{TUNNEL_PREFIX}*" drop',
        *_names(firewall),
        f'iifname "{BRIDGE_PREFIX}*" ip daddr {LINK_LOCAL_4} drop',
        f'iifname "{BRIDGE_PREFIX}*" ip6 daddr {LINK_LOCAL_6} drop',
        *_nodes_shut(firewall.nodes),
    ]


def _nodes_shut(nodes: Iterable[str]) -> Iterator[str]:
    """The services of the other nodes are as shut as those of this one."""
    for node in sorted(nodes):
        family = "ip" if ip_address(node).version == 4 else "ip6"
        yield f'iifname "{BRIDGE_PREFIX}*" {family} daddr {node} drop'


def _apart(bridges: Iterable[str]) -> list[str]:
    """From outside of a gang's bridge come answers only."""
    return [
        f'oifname "{bridge}" iifname != "{bridge}" ct state != {{ established, related }} drop'
        for bridge in sorted(bridges)
    ]
