"""Which networks of gangs this node joins: whatever a portal says, they must be of its overlay, and
their addresses must be private and belong together."""

import base64
import binascii
from ipaddress import IPv4Address, IPv4Network, ip_address

from agents.contract.container_names import container_name
from agents.contract.documents import DesiredReplica
from agents.contract.gang_network import GangNetwork, GangPeer, NodeOverlay, OverlayKind

# RFC 1918 and RFC 6598.
PRIVATE = tuple(
    map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))
)
WIDEST, NARROWEST = 12, 29
KEY_BYTES = 32


def gang_network_refusal(replica: DesiredReplica, offered: NodeOverlay | None, address: str) -> str:
    """Why this node does not join the replica's network; empty if it does, or if it has none.
    `address`: this node's for others. Pure."""
    network = replica.gang_network
    if network is None:
        return ""
    if offered is None:
        return "the gang is over several nodes, and this node has no overlay network"
    return unfit_network(network, offered) or _ranks_problem(replica, network, address)


def unfit_network(network: GangNetwork, offered: NodeOverlay) -> str:
    """Why this node joins no network with such parts, whosever it is, and does not change one that
    it has joined into it; empty if it does. Pure."""
    if network.kind != offered.kind:
        return f"the gang's network is {network.kind}, and this node's overlay is {offered.kind}"
    try:
        subnet = IPv4Network(network.subnet)
    except ValueError:
        return f"{network.subnet!r} is no IPv4 subnet"
    if not (any(map(subnet.subnet_of, PRIVATE)) and WIDEST <= subnet.prefixlen <= NARROWEST):
        return f"{subnet} is not a private subnet of a gang, /{WIDEST} to /{NARROWEST}"
    return next(filter(None, (_peer_problem(p, subnet, network) for p in network.peers)), "")


def _ranks_problem(replica: DesiredReplica, network: GangNetwork, address: str) -> str:
    if [peer.rank for peer in network.peers] != list(range(replica.world)):
        return f"the gang's network does not name each of its {replica.world} ranks once"
    if len({peer.address for peer in network.peers}) != replica.world:
        return "two ranks of the gang have the same address"
    for peer in network.peers:
        if peer.hostname != container_name(replica.job, replica.attempt, peer.rank):
            return f"{peer.hostname} is not the name of rank {peer.rank}"
    own = network.peers[replica.rank] if replica.rank < replica.world else None
    if own is None or own.address != network.address or own.node_address != address:
        return f"rank {replica.rank} has another address than its gang knows"
    return ""


def _peer_problem(peer: GangPeer, subnet: IPv4Network, network: GangNetwork) -> str:
    try:
        inside, node = IPv4Address(peer.address), ip_address(peer.node_address)
    except ValueError as error:
        return f"rank {peer.rank}: {error}"
    reserved = (subnet.network_address, subnet[1], subnet.broadcast_address)
    if inside not in subnet or inside in reserved:
        return f"rank {peer.rank}: {inside} is no replica's address in {subnet}"
    # A zone ("fe80::1%eth0") may be any text, and a node's address is written into commands.
    has_zone = "%" in peer.node_address
    if has_zone or node.is_loopback or node.is_multicast or node.is_unspecified or node in subnet:
        return f"rank {peer.rank}: {node} is no address of a node"
    if network.kind is OverlayKind.WIREGUARD and not _is_key(peer.public_key):
        return f"rank {peer.rank}: its node has no WireGuard key"
    return ""


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == KEY_BYTES
    except (binascii.Error, ValueError):
        return False
