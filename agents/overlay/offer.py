"""Whether this machine can carry gangs over several engines, and how."""

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from agents.admission.policy import AUTO, NodePolicy
from agents.admission.policy import OVERLAY_OFF as OFF
from agents.contract.gang_network import MIN_MTU, NodeOverlay, OverlayKind
from agents.overlay.commands import (
    BRIDGE,
    IP,
    NFT,
    UNSHARE,
    WG,
    WIREGUARD_GO,
    NetworkRefused,
    installed,
    try_network_command,
)
from agents.overlay.interfaces import interface_with, read_interfaces
from agents.overlay.key import public_key_of

# Of the headers: outer Ethernet is not counted, the inner one is.
VXLAN_BYTES = {4: 50, 6: 70}
WIREGUARD_BYTES = {4: 60, 6: 80}
# Of a container's network: IPv6's least, which many programs take for granted.
LEAST_MTU = 1_280
KEY_FILE = "overlay.key"
IPV6_OFF = Path("/proc/sys/net/ipv6/conf/default/disable_ipv6")
TRY_VXLAN = ("type", "vxlan", "id", "1", "dstport", "4789")
TRY_WIREGUARD = ("type", "wireguard")


class OverlayUnavailable(Exception):
    """Why gangs stay on this node's engine, as a sentence."""

    def __init__(self, why: str, mend: str) -> None:
        super().__init__(why)
        self.why, self.mend = why, mend


@dataclass(frozen=True, slots=True)
class OverlayCapability:
    """What a machine can do, or why it cannot."""

    kind: str = ""
    mtu: int = 0
    device_mtu: int = 0
    why: str = ""
    mend: str = ""


@dataclass(frozen=True, slots=True)
class OverlayRules:
    """What the node's owner decides: keys of its policy."""

    # Nodes whose overlays have one name reach each other; `off` for none.
    name: str
    # An `OverlayKind`, or `auto`: WireGuard where the kernel has it, and IPv6 is on.
    kind: str
    port: int
    # 0: that of the device with the node's address.
    device_mtu: int = 0


def overlay_rules(policy: NodePolicy) -> OverlayRules | None:
    """None if its gangs stay on its engine, or have the host's network."""
    if policy.overlay == OFF or policy.network != "job":
        return None
    return OverlayRules(
        policy.overlay, policy.overlay_kind, policy.overlay_port, policy.overlay_device_mtu
    )


def overlay_offer(rules: OverlayRules, address: str, folder: Path) -> NodeOverlay:
    """What this machine offers at that address. `folder`: of its key. Raises OverlayUnavailable."""
    found = _capability(rules, address)
    is_tunnelled = found.kind == OverlayKind.WIREGUARD
    key = public_key_of(folder / KEY_FILE) if is_tunnelled else ""
    return NodeOverlay(found.kind, rules.port, key, found.mtu)


def overlay_capability(rules: OverlayRules, address: str) -> OverlayCapability:
    """The same, for people. Changes nothing."""
    try:
        return _capability(rules, address)
    except OverlayUnavailable as unavailable:
        return OverlayCapability(why=unavailable.why, mend=unavailable.mend)


def _capability(rules: OverlayRules, address: str) -> OverlayCapability:
    """Raises OverlayUnavailable."""
    if not address:
        raise OverlayUnavailable(
            "This node has no address for other nodes", "set --address or TESSERA_AGENT_ADDRESS"
        )
    kind, device_mtu = overlay_kind(rules), rules.device_mtu or _device_mtu(address)
    mtu = inner_mtu(kind, ip_address(address).version, device_mtu)
    if mtu < LEAST_MTU:
        raise OverlayUnavailable(
            f"With an MTU of {device_mtu}, packets of gangs have {mtu} bytes, and need {LEAST_MTU}",
            f"sudo ip link set dev DEVICE mtu {LEAST_MTU + device_mtu - mtu}",
        )
    return OverlayCapability(str(kind), mtu, device_mtu)


def overlay_kind(rules: OverlayRules) -> OverlayKind:
    """Changes nothing: what the kernel can do is tried in a namespace of its own. Raises
    OverlayUnavailable."""
    for program, package in ((IP, "iproute2"), (BRIDGE, "iproute2"), (NFT, "nftables")):
        if not installed(program):
            raise OverlayUnavailable(
                f"{program} is not installed", f"sudo apt-get install {package}"
            )
    if why := _cannot_add(TRY_VXLAN):
        raise OverlayUnavailable(
            f"The kernel makes no VXLAN device: {why}",
            "run the agent as root, with CAP_NET_ADMIN and CAP_SYS_ADMIN; sudo modprobe vxlan",
        )
    if rules.kind == OverlayKind.VXLAN:
        return OverlayKind.VXLAN
    if _is_ipv6_off():
        if rules.kind == AUTO:
            return OverlayKind.VXLAN
        raise OverlayUnavailable(
            "Inside of WireGuard's tunnel links use IPv6, which is off on this machine",
            "sudo sysctl -w net.ipv6.conf.default.disable_ipv6=0",
        )
    why = "wg is not installed" if not installed(WG) else _cannot_add(TRY_WIREGUARD)
    if not why:
        return OverlayKind.WIREGUARD
    if rules.kind == AUTO:
        return OverlayKind.VXLAN
    if installed(WG) and installed(WIREGUARD_GO):
        return OverlayKind.WIREGUARD
    raise OverlayUnavailable(
        f"This machine has no WireGuard: {why}",
        "sudo apt-get install wireguard-tools; sudo modprobe wireguard",
    )


def _is_ipv6_off() -> bool:
    """For devices that are added from now on."""
    try:
        return IPV6_OFF.read_text("ascii").strip() != "0"
    except OSError:
        return True


def inner_mtu(kind: OverlayKind, version: int, device_mtu: int) -> int:
    """The largest packet of a replica. Inside of a tunnel, links use IPv6."""
    if kind is OverlayKind.VXLAN:
        return max(MIN_MTU, device_mtu - VXLAN_BYTES[version])
    return max(MIN_MTU, device_mtu - WIREGUARD_BYTES[version] - VXLAN_BYTES[6])


def _device_mtu(address: str) -> int:
    """Raises OverlayUnavailable."""
    try:
        device = interface_with(address, read_interfaces())
    except NetworkRefused as refused:
        raise OverlayUnavailable(str(refused), "") from refused
    if device is None:
        raise OverlayUnavailable(
            f"{address} is no address of this machine", "set --address to one of `ip address`"
        )
    return device.mtu


def _cannot_add(words: tuple[str, ...]) -> str:
    """Why the kernel does not; empty if it does. What it adds goes with its namespace."""
    trial = ("--net", installed(IP), "link", "add", "trial0", *words)
    return try_network_command(UNSHARE, *trial).failure
