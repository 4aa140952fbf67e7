"""The WireGuard tunnel of this node to the nodes with which its gangs are shared."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agents.overlay.commands import (
    IP,
    WG,
    WIREGUARD_GO,
    NetworkRefused,
    installed,
    ip_objects,
    network_command,
    try_network_command,
)
from agents.overlay.names import tunnel_address


@dataclass(frozen=True, slots=True, order=True)
class TunnelPeer:
    """Another node."""

    public_key: str
    address: str
    port: int


def tunnel_create(
    name: str, key_file: Path, public_key: str, port: int, mtu: int, peers: Iterable[TunnelPeer]
) -> None:
    """Create it, or give it these peers instead of those that it has: connections to the others
    stay. Raises NetworkRefused."""
    if not any(each.get("ifname") == name for each in ip_objects("link", "show")):
        _add(name)
    try:
        key = key_file.read_text("ascii").strip()
    except OSError as error:
        raise NetworkRefused(f"the node's key cannot be read: {error}") from error
    text = tunnel_configuration(key, port, peers)
    network_command(WG, "syncconf", name, "/dev/stdin", input_text=text)
    own = f"{tunnel_address(public_key)}/64"
    network_command(IP, "address", "replace", own, "dev", name, "nodad")
    network_command(IP, "link", "set", name, "mtu", str(mtu), "up")


def tunnel_remove(name: str) -> None:
    """No effect if it is gone."""
    try_network_command(IP, "link", "delete", name)


def tunnel_configuration(private_key: str, port: int, peers: Iterable[TunnelPeer]) -> str:
    """For `wg syncconf`. Each node may send from its own address in the tunnel alone."""
    lines = ["[Interface]", f"PrivateKey = {private_key}", f"ListenPort = {port}"]
    for peer in sorted(peers):
        host = f"[{peer.address}]" if ":" in peer.address else peer.address
        lines += [
            "[Peer]",
            f"PublicKey = {peer.public_key}",
            f"Endpoint = {host}:{peer.port}",
            f"AllowedIPs = {tunnel_address(peer.public_key)}/128",
        ]
    return "\n".join(lines) + "\n"


def _add(name: str) -> None:
    """By the kernel, else by WireGuard's program in user space, as wg-quick(8) does."""
    done = try_network_command(IP, "link", "add", name, "type", "wireguard")
    if not done.failure:
        return
    if not installed(WIREGUARD_GO):
        raise NetworkRefused(f"the kernel makes no WireGuard device: {done.failure}")
    network_command(WIREGUARD_GO, name)
