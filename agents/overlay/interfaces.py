"""This machine's addresses, packet sizes and routes, and its address for other nodes."""

import contextlib
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

from agents.overlay.commands import ip_objects
from agents.overlay.names import BRIDGE_PREFIX

# Documentation's own address: nothing is sent there, the kernel is only asked for the way.
ELSEWHERE = "192.0.2.1"
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Interface:
    """A network device with its addresses."""

    name: str
    mtu: int
    addresses: tuple[str, ...]


def read_interfaces() -> tuple[Interface, ...]:
    """Raises NetworkRefused."""
    return tuple(map(_interface, ip_objects("address", "show")))


def interface_with(address: str, interfaces: Iterable[Interface]) -> Interface | None:
    wanted = ip_address(address)
    for interface in interfaces:
        if any(ip_address(each) == wanted for each in interface.addresses):
            return interface
    return None


def is_own_address(address: str) -> bool:
    """Whether this machine has it now: then the kernel binds a socket to it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def colliding_route(subnet: IPv4Network) -> str:
    """A route of this machine inside of the subnet or around it, in words; empty if there is none.
    Routes of gangs do not count: the engine refuses two networks that overlap. Raises
    NetworkRefused."""
    for route in ip_objects("-4", "route", "show"):
        target, device = str(route.get("dst", "default")), str(route.get("dev", ""))
        if target == "default" or device.startswith(BRIDGE_PREFIX):
            continue
        if ip_network(target, strict=False).overlaps(subnet):
            return f"{target} by {device}" if device else target
    return ""


def address_towards(urls: Iterable[str]) -> str:
    """The address from which this machine reaches the first of these URLs that is elsewhere, else
    anything beyond its own networks; empty if it has none."""
    places = [_place(url) for url in urls]
    for host, port in [*places, (ELSEWHERE, 80)]:
        with contextlib.suppress(OSError):
            found = _source_towards(host, port)
            if not ip_address(found).is_loopback:
                return found
    return ""


def _source_towards(host: str, port: int) -> str:
    """Raises OSError."""
    family, kind, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(target)
        return str(probe.getsockname()[0]).partition("%")[0]


def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or DEFAULT_PORTS.get(parts.scheme, 443)


def _interface(listed: dict[str, Any]) -> Interface:
    addresses = (each.get("local") for each in listed.get("addr_info", ()))
    return Interface(
        str(listed.get("ifname", "")),
        int(listed.get("mtu", 0)),
        tuple(str(address) for address in addresses if address),
    )
