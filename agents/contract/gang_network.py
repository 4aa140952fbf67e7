"""The network of a gang over several engines: what a node offers, and what a replica gets.

A gang has one segment, known by its `id`, with one subnet. The first address of the subnet is the
gateway of the replicas on every node; each rank has one of the others, which the portal chose.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from agents.contract.codec import omitted_by_default, rule
from agents.contract.egress import EgressPolicy

# Of a VXLAN: 24 bits.
MAX_NETWORK_ID = (1 << 24) - 1
MIN_MTU, MAX_MTU = 576, 65_535
# An IPv6 address with a zone.
MAX_ADDRESS = 64
# A WireGuard key in base64.
MAX_KEY = 44
HOSTNAME = r"[A-Za-z0-9][A-Za-z0-9-]{0,62}"


class OverlayKind(StrEnum):
    """How the packets of a gang travel between nodes."""

    # Encrypted, by the node's key.
    WIREGUARD = "wireguard"
    # In the clear.
    VXLAN = "vxlan"


@dataclass(frozen=True, slots=True)
class NodeOverlay:
    """What a node that can carry gangs over several engines offers them."""

    # An `OverlayKind`, or the word of a newer agent.
    kind: str = field(metadata=rule(max_length=32))
    # The UDP port at which the node takes the packets of other nodes.
    port: int = field(metadata=rule(minimum=1, maximum=65_535))
    # Of WireGuard; empty for another kind.
    public_key: str = field(default="", metadata=rule(max_length=MAX_KEY))
    # The largest packet of a replica that crosses the node's network in one piece.
    mtu: int = field(default=1_400, metadata=rule(minimum=MIN_MTU, maximum=MAX_MTU))


@dataclass(frozen=True, slots=True)
class GangPeer:
    """One rank of a gang, and how its node is reached."""

    rank: int = field(metadata=rule(minimum=0, maximum=4_095))
    hostname: str = field(metadata=rule(max_length=63, pattern=HOSTNAME))
    # Of the replica, in the gang's subnet.
    address: str = field(metadata=rule(max_length=MAX_ADDRESS))
    # `NodeFacts.address` of its node, with port and key of the node's overlay.
    node_address: str = field(metadata=rule(max_length=MAX_ADDRESS))
    port: int = field(metadata=rule(minimum=1, maximum=65_535))
    public_key: str = field(default="", metadata=rule(max_length=MAX_KEY))


@dataclass(frozen=True, slots=True)
class GangNetwork:
    """The network of one attempt of a gang, as one of its replicas gets it."""

    id: int = field(metadata=rule(minimum=1, maximum=MAX_NETWORK_ID))
    kind: OverlayKind
    # IPv4, such as 10.213.4.0/24.
    subnet: str = field(metadata=rule(max_length=MAX_ADDRESS))
    # The replica's own.
    address: str = field(metadata=rule(max_length=MAX_ADDRESS))
    # The smallest of the gang's nodes.
    mtu: int = field(metadata=rule(minimum=MIN_MTU, maximum=MAX_MTU))
    # All ranks, the replica's own with them.
    peers: tuple[GangPeer, ...] = field(default=(), metadata=rule(max_length=4_096))
    # As `DesiredReplica.egress`.
    egress: EgressPolicy = field(default=EgressPolicy.ALL, metadata=omitted_by_default())
