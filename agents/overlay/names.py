"""Names and addresses that follow from others, so that every node works them out alike."""

import base64
import hashlib
from ipaddress import IPv4Address, IPv4Network, IPv6Address

# Of network devices, which have at most 15 characters.
BRIDGE_PREFIX, LINK_PREFIX, TUNNEL_PREFIX = "tsb-", "tsv-", "tsw-"
# Addresses that nodes have inside of their WireGuard tunnels: unique local, RFC 4193.
TUNNEL_NETWORK = 0xFD74_6573_7365_7261 << 64


def network_name(network_id: int) -> str:
    """Of the engine's network."""
    return f"tessera-gang-{network_id:06x}"


def bridge_name(network_id: int) -> str:
    return f"{BRIDGE_PREFIX}{network_id:06x}"


def link_name(network_id: int) -> str:
    return f"{LINK_PREFIX}{network_id:06x}"


def link_id(name: str) -> int | None:
    """Of a network device; None if it is no link of a gang."""
    digits = name.removeprefix(LINK_PREFIX)
    try:
        return int(digits, 16) if name.startswith(LINK_PREFIX) and len(digits) == 6 else None
    except ValueError:
        return None


def tunnel_name(node: str) -> str:
    return f"{TUNNEL_PREFIX}{hashlib.sha256(node.encode()).hexdigest()[:8]}"


def replica_mac(address: str) -> str:
    """The MAC address of the replica with this address, locally administered."""
    return ":".join(f"{byte:02x}" for byte in b"\x02\x74" + IPv4Address(address).packed)


def gateway_of(subnet: str) -> str:
    """The replicas' way out: on each node its own bridge, everywhere with this address."""
    return str(IPv4Network(subnet)[1])


def tunnel_address(public_key: str) -> str:
    """Of the node with this key. 64 bits of a hash: two nodes do not meet in one."""
    digest = hashlib.sha256(base64.b64decode(public_key)).digest()
    return str(IPv6Address(TUNNEL_NETWORK | int.from_bytes(digest[:8], "big")))
