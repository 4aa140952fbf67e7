"""The links of gangs: one VXLAN device each, a port of the gang's bridge.

Nothing is learned and nothing is flooded to other nodes. Where each replica is, and with which MAC
address, is written into the link: it answers ARP for replicas elsewhere, and sends to their nodes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from agents.contract.gang_network import GangNetwork, GangPeer, OverlayKind
from agents.overlay.commands import (
    BRIDGE,
    IP,
    ip_objects,
    network_command,
    try_network_command,
)
from agents.overlay.names import bridge_name, link_id, link_name, replica_mac, tunnel_address

# Of the packets inside of WireGuard's tunnel.
TUNNELLED_PORT = 4_789


@dataclass(frozen=True, slots=True)
class RemoteReplica:
    """A replica of the gang on another node."""

    address: str
    # Where its node takes the packets of links.
    node: str
    port: int


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """This node's end of every link."""

    address: str
    port: int
    mtu: int
    # Whose links they are: those of others are left alone.
    owner: str


def own_addresses(network: GangNetwork) -> frozenset[str]:
    """This node's, as the gang knows it: by the replica's own address. The node may have another
    one meanwhile."""
    return frozenset(p.node_address for p in network.peers if p.address == network.address)


def remote_peers(network: GangNetwork) -> tuple[GangPeer, ...]:
    """The ranks on other nodes."""
    own = own_addresses(network)
    return tuple(peer for peer in network.peers if peer.node_address not in own)


def remote_replicas(network: GangNetwork) -> tuple[RemoteReplica, ...]:
    return tuple(
        RemoteReplica(peer.address, tunnel_address(peer.public_key), TUNNELLED_PORT)
        if network.kind is OverlayKind.WIREGUARD
        else RemoteReplica(peer.address, peer.node_address, peer.port)
        for peer in remote_peers(network)
    )


def link_create(network: GangNetwork, end: LinkEnd, replicas: Iterable[RemoteReplica]) -> None:
    """Create or complete it. The bridge exists. Raises NetworkRefused."""
    name, made = link_name(network.id), _found(link_name(network.id))
    if made and not _is_at(made, end):
        # The node's address or port was another one when it was made: neither can be changed.
        network_command(IP, "link", "delete", name)
        made = None
    if not made:
        here = ("local", end.address, "dstport", str(end.port))
        words = ("type", "vxlan", "id", str(network.id), *here, "nolearning", "proxy")
        network_command(IP, "link", "add", name, "mtu", str(end.mtu), *words)
    network_command(IP, "link", "set", name, "alias", end.owner)
    network_command(IP, "link", "set", name, "master", bridge_name(network.id), "up")
    port = ("learning", "off", "flood", "off", "mcast_flood", "off")
    network_command(BRIDGE, "link", "set", "dev", name, *port)
    entries = list(replicas)
    forwarding = "".join(line for each in entries for line in _forwarding(name, each))
    neighbours = "".join(_neighbour(name, each) for each in entries)
    network_command(BRIDGE, "-batch", "-", input_text=forwarding)
    network_command(IP, "-batch", "-", input_text=neighbours)


def links_of(owner: str) -> tuple[int, ...]:
    """The ids of its links, and of those without an owner: an agent that was killed between two
    commands has made them. Raises NetworkRefused."""
    found = (
        link_id(str(each.get("ifname", "")))
        for each in _listed()
        if each.get("ifalias", owner) == owner
    )
    return tuple(each for each in found if each is not None)


def link_remove(network_id: int) -> None:
    """No effect if it is gone. Its entries go with it."""
    try_network_command(IP, "link", "delete", link_name(network_id))


def _listed() -> list[dict[str, Any]]:
    return ip_objects("-details", "link", "show", "type", "vxlan")


def _found(name: str) -> dict[str, Any] | None:
    return next((each for each in _listed() if each.get("ifname") == name), None)


def _is_at(listed: dict[str, Any], end: LinkEnd) -> bool:
    data = listed["linkinfo"]["info_data"]
    return (data.get("local") or data.get("local6"), data.get("port")) == (end.address, end.port)


def _forwarding(name: str, replica: RemoteReplica) -> tuple[str, str]:
    """Lines for `bridge`: the bridge sends to the link, the link to the node."""
    entry = f"fdb replace {replica_mac(replica.address)} dev {name}"
    return (
        f"{entry} master static\n",
        f"{entry} self permanent dst {replica.node} port {replica.port}\n",
    )


def _neighbour(name: str, replica: RemoteReplica) -> str:
    """A line for `ip`: what the link answers who asks for the replica's address."""
    mac = replica_mac(replica.address)
    return f"neigh replace {replica.address} lladdr {mac} dev {name} nud permanent\n"
