"""Whether what a node reports of its address and its overlay can be used by other nodes.

A node speaks about itself only: what it reports is what its peers send packets to. A node whose
report cannot be used keeps its gangs to itself, and its page says why.
"""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address
from typing import Any

from django.conf import settings

from agents.contract.codec import encode
from agents.contract.documents import NodeFacts
from agents.contract.egress import METADATA_ADDRESSES
from agents.contract.gang_network import NodeOverlay, OverlayKind
from agents.contract.message import Message
from portal.inventory.models import Node
from scheduler.core.model.states import NodeStatus

KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Joining:
    """How a node joins gangs over several nodes."""

    fabric: str
    facts: dict[str, Any] = field(default_factory=dict)
    """`address`, `overlay` and `joining_problem`, as far as there are any."""


def node_joining(node: Node, facts: NodeFacts) -> Joining:
    """No query, unless its key is another one than before."""
    if not facts.address and facts.overlay is None:
        return Joining(facts.fabric)
    problem = address_problem(facts.address) if facts.address else None
    seen: dict[str, Any] = {}
    if facts.address and problem is None:
        seen["address"] = str(ip_address(facts.address))
    if facts.overlay is not None:
        problem = problem or overlay_problem(node, facts.address, facts.overlay)
        if problem is None:
            seen["overlay"] = encode(facts.overlay)
    if problem is None:
        return Joining(facts.fabric, seen)
    alone = facts.fabric if facts.overlay is None else f"alone:{node.pk}"
    return Joining(alone, seen | {"joining_problem": problem.as_dict()})


def network_of_node(fabric: str, overlay: Mapping[str, Any] | None) -> str:
    """Nodes with an equal one reach each other's replicas: whatever a node reports, it is on one
    network only with nodes that join gangs as it does."""
    return f"{overlay['kind'] if overlay else ''} {fabric}"


def address_problem(text: str) -> Message | None:
    """Why other nodes cannot be sent there; or None."""
    try:
        address = ip_address(text)
    except ValueError:
        return Message("%(address)s is no IP address", address=text)
    plain = getattr(address, "ipv4_mapped", None) or address
    if (
        plain.is_loopback
        or plain.is_multicast
        or plain.is_unspecified
        or plain.is_link_local
        or plain.is_reserved
        or any(plain in each for each in METADATA_ADDRESSES)
        or getattr(address, "scope_id", None)
    ):
        return Message("%(address)s is no address at which other nodes reach it", address=text)
    gangs = IPv4Network(settings.PLATFORM.gang_network_range)
    if _is_in(plain, gangs):
        return Message(
            "%(address)s lies in the range of gang networks, %(range)s",
            address=text,
            range=str(gangs),
        )
    return None


def overlay_problem(node: Node, address: str, overlay: NodeOverlay) -> Message | None:
    if not address:
        return Message("it reports no address for other nodes")
    if overlay.kind not in set(OverlayKind):
        return Message("this portal does not know networks of the kind %(kind)s", kind=overlay.kind)
    if overlay.kind != OverlayKind.WIREGUARD:
        return None
    if not _is_key(overlay.public_key):
        return Message("it reports no valid WireGuard key")
    before = (node.facts.get("overlay") or {}).get("public_key")
    if overlay.public_key == before:
        return None
    # An agent that enrols anew as another node keeps the key of its folder.
    others = Node.objects.exclude(pk=node.pk).exclude(status=NodeStatus.RETIRED)
    other = others.filter(facts__overlay__public_key=overlay.public_key).first()
    return Message("%(node)s has the same WireGuard key", node=other.name) if other else None


def _is_in(address: IPv4Address | IPv6Address, network: IPv4Network) -> bool:
    return isinstance(address, IPv4Address) and address in network


def _is_key(text: str) -> bool:
    try:
        return len(b64decode(text, validate=True)) == KEY_BYTES
    except ValueError:
        return False
