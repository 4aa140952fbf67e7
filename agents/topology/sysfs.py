"""Reads the PCI places of GPUs and network cards, and the cards' links, from sysfs.

Names and meanings: the kernel's Documentation/ABI (sysfs-class-net, sysfs-class-infiniband,
sysfs-bus-pci). Missing values stay empty and are never an error.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agents.topology.nics import Network, Nic, number_nics
from agents.topology.pci import PciPlace, kernel_bus_id, place_of

SETTING = "TESSERA_SYSFS"
# ports/1/rate of an RDMA device: "400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X SDR)".
RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?) Gb/sec")
ACTIVE = "4: ACTIVE"
# gids/N of a port: an IPv4 address as an IPv6 one.
IPV4_GID = re.compile(r"0000:0000:0000:0000:0000:ffff:[0-9a-f]{4}:[0-9a-f]{4}")


@dataclass(frozen=True, slots=True)
class _Port:
    link_layer: str = ""
    mbit_per_second: int = 0
    up: bool = False
    number: int = 1
    gid_index: int | None = None


def sysfs_root(simulated_tree: Path | None = None) -> Path:
    """The tree that TESSERA_SYSFS names, else that of the simulated node, else the kernel's."""
    named = os.environ.get(SETTING, "")
    return Path(named) if named else simulated_tree or Path("/sys")


def read_network(root: Path, bus_ids: Mapping[int, str]) -> Network:
    """`bus_ids`: of each GPU by index, as the driver writes them."""
    gpus = {index: _gpu(root, bus_id) for index, bus_id in bus_ids.items()}
    return Network(
        nics=number_nics([*_rdma(root), *_plain(root)]),
        gpus={index: place for index, place in gpus.items() if place},
    )


def _gpu(root: Path, bus_id: str) -> PciPlace | None:
    try:
        return _place(root / "bus" / "pci" / "devices" / kernel_bus_id(bus_id))
    except ValueError:
        return None


def _rdma(root: Path) -> list[Nic]:
    """The RDMA devices, each with its interfaces."""
    found = []
    for device in _entries(root / "class" / "infiniband"):
        at = device / "device"
        place = _place(at)
        if place is None or _is_virtual_function(at):
            continue
        port = _best_port(device)
        found.append(
            Nic(
                index=0,
                name=device.name,
                place=place,
                interfaces=tuple(entry.name for entry in _entries(at / "net")),
                rdma=True,
                link_layer=port.link_layer,
                mbit_per_second=port.mbit_per_second,
                up=port.up,
                port=port.number,
                gid_index=port.gid_index,
            )
        )
    return found


def _plain(root: Path) -> list[Nic]:
    """Interfaces of PCI cards that have no RDMA device. Bridges, tunnels, bonds and USB are none
    of these: they hang on no PCI card of their own."""
    found = []
    for interface in _entries(root / "class" / "net"):
        at = interface / "device"
        place = _place(at)
        is_usb = any(part.startswith("usb") for part in _path(at).parts)
        if place is None or is_usb or _is_virtual_function(at) or _entries(at / "infiniband"):
            continue
        up = _text(interface / "operstate") == "up"
        found.append(
            Nic(
                index=0,
                name=interface.name,
                place=place,
                interfaces=(interface.name,),
                link_layer="Ethernet" if _text(interface / "type") == "1" else "",
                mbit_per_second=max(_number(interface / "speed") or 0, 0) if up else 0,
                up=up,
            )
        )
    return found


def _best_port(device: Path) -> _Port:
    """The fastest active port, else the first: older cards have two ports on one device."""
    ports = [_port(port) for port in _entries(device / "ports")]
    return max(ports, key=lambda port: (port.up, port.mbit_per_second), default=_Port())


def _port(port: Path) -> _Port:
    up = _text(port / "state") == ACTIVE
    rate = RATE.match(_text(port / "rate"))
    mbit = round(float(rate[1]) * 1000) if rate and up else 0
    number = int(port.name) if port.name.isdecimal() else 1
    return _Port(_text(port / "link_layer"), mbit, up, number, _roce_v2_gid(port))


def _roce_v2_gid(port: Path) -> int | None:
    """The index of its first RoCE v2 address on IPv4, which NCCL prefers."""
    for kind in sorted(_entries(port / "gid_attrs" / "types"), key=_index):
        gid = _text(port / "gids" / kind.name)
        if _text(kind) == "RoCE v2" and IPV4_GID.fullmatch(gid):
            return _index(kind)
    return None


def _index(path: Path) -> int:
    return int(path.name) if path.name.isdecimal() else 0


def _is_virtual_function(device: Path) -> bool:
    """A share of a card that is listed itself (SR-IOV)."""
    return (device / "physfn").exists()


def _place(device: Path) -> PciPlace | None:
    """Of what a link of sysfs leads to."""
    path = _path(device)
    if not path.exists():
        return None
    node = _numa_node(path)
    return place_of(path.parts, node)


def _numa_node(path: Path) -> int | None:
    """Of the device, or of the PCI device that carries it (virtio). -1 in sysfs: unknown."""
    for at in (path, path.parent):
        node = _number(at / "numa_node")
        if node is not None:
            return node if node >= 0 else None
    return None


def _path(link: Path) -> Path:
    return Path(os.path.realpath(link))


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _number(path: Path) -> int | None:
    try:
        return int(_text(path))
    except ValueError:
        return None


def _text(path: Path) -> str:
    """Empty where there is none: `speed` of a link that is down answers EINVAL."""
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
