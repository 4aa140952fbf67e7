"""The sysfs tree of a simulated node: real files and links beside its state file.

PCI paths follow the layout: a tree of one place hangs at its root port; one with one switch has the
switch's upstream port and a downstream port for each device; one with several has a switch above
them. Readers need nothing of this module but the folder.
"""

import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agents.simdriver.layouts import LAYOUTS, NicPlace, Place
from agents.simdriver.state import SimulatedNode
from agents.simdriver.store import Store

WINDOW = 8  # a host bridge begins so many buses before its first GPU's
# Where mlx5 cards have the address of RoCE v2 on IPv4, and the beginning of such an address.
ROCE_GID, IPV4_GID = "3", "0000:0000:0000:0000:0000:ffff:0a00"
NIC_BUS = 4  # a NIC's bus comes so many after the GPU's whose place is the same
Tree = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class PciDevice:
    """A PCI device: its bus number, and what of a NIC it is."""

    place: Place
    bus: int
    nic: NicPlace | None = None
    number: int = 0

    @property
    def bus_id(self) -> str:
        return f"0000:{self.bus:02x}:00.{self.nic.function if self.nic else 0}"


def sysfs_tree(state: Path) -> Path:
    """The sysfs of the node whose state stands in `state`, made at the first call: a folder that
    ends in `.sys`, one inside for each wiring. Raises OSError, ValueError."""
    node = Store(state).node()
    found = state.with_suffix(".sys") / f"{node.layout}-{len(node.gpus)}"
    if not found.is_dir():
        _make(node, found)
    return found


def _make(node: SimulatedNode, target: Path) -> None:
    """In one step: another process sees the whole tree or none."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=target.parent, prefix=".draft-"))
    try:
        write_tree(node, draft)
        draft.rename(target)
    except OSError:
        if not target.is_dir():
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write_tree(node: SimulatedNode, root: Path) -> None:
    """Write all of it under `root`, which stands for /sys."""
    (root / "class" / "net").mkdir(parents=True)
    (root / "bus" / "pci" / "devices").mkdir(parents=True)
    devices = _devices(node)
    for device, steps in _paths(devices):
        folder = root.joinpath("devices", *steps)
        folder.mkdir(parents=True)
        _write(folder / "numa_node", device.place.numa)
        _link(root / "bus" / "pci" / "devices" / device.bus_id, folder)
        if device.nic is not None:
            _nic(root, folder, device.nic, device.number)


def _devices(node: SimulatedNode) -> list[PciDevice]:
    """GPUs at the bus ids that the driver tells; NICs on buses that are left."""
    layout = LAYOUTS[node.layout]
    gpus = [
        PciDevice(layout.place(gpu.index, gpu.numa_node), int(gpu.pci_bus_id[9:11], 16))
        for gpu in node.gpus
    ]
    taken = {gpu.bus for gpu in gpus}
    cards: dict[Place, int] = {}
    nics = []
    for number, nic in enumerate(layout.nics):
        if nic.place not in cards or not nic.function:
            near = [g.bus for g in gpus if _bridge(g.place) == _bridge(nic.place)]
            start = min(near) + NIC_BUS if near else 0x98
            cards[nic.place] = next(bus for bus in range(start, 0x100) if bus not in taken)
            taken.add(cards[nic.place])
        nics.append(PciDevice(nic.place, cards[nic.place], nic, number))
    return gpus + nics


def _bridge(place: Place) -> tuple[int, int]:
    return place.numa, place.bridge


def _paths(devices: list[PciDevice]) -> Iterator[tuple[PciDevice, list[str]]]:
    """Each device with the names of its path below /sys/devices."""
    trees: dict[Tree, list[PciDevice]] = defaultdict(list)
    for device in devices:
        trees[(*_bridge(device.place), device.place.tree)].append(device)
    buses = _Buses({device.bus for device in devices})
    roots: dict[tuple[int, int], int] = {}
    for (numa, bridge, tree), inside in trees.items():
        if (numa, bridge) not in roots:
            roots[numa, bridge] = buses.free(max(inside[0].bus - WINDOW, 0))
        root = roots[numa, bridge]
        port = [f"pci0000:{root:02x}", f"0000:{root:02x}:{tree + 1:02x}.0"]
        yield from _tree(inside, port, buses)


def _tree(
    inside: list[PciDevice], above: list[str], buses: "_Buses"
) -> Iterator[tuple[PciDevice, list[str]]]:
    switches: dict[int, list[PciDevice]] = defaultdict(list)
    for device in inside:
        switches[device.place.switch].append(device)
    if len({device.bus for device in inside}) == 1:
        yield from ((device, [*above, device.bus_id]) for device in inside)
        return
    if len(switches) > 1:
        top, middle = buses.free(inside[0].bus - WINDOW), buses.free(inside[0].bus - WINDOW)
        above = [*above, f"0000:{top:02x}:00.0"]
    for number, members in enumerate(switches.values()):
        down = [f"0000:{middle:02x}:{number:02x}.0"] if len(switches) > 1 else []
        up, ports = buses.free(members[0].bus - WINDOW), buses.free(members[0].bus - WINDOW)
        for place, device in enumerate(members):
            switch = [f"0000:{up:02x}:00.0", f"0000:{ports:02x}:{place:02x}.0"]
            yield device, [*above, *down, *switch, device.bus_id]


class _Buses:
    """Bus numbers that nothing has yet."""

    def __init__(self, taken: set[int]) -> None:
        self._taken = set(taken)

    def free(self, start: int) -> int:
        order = [*range(max(start, 0), 0x100), *range(max(start, 0))]
        found: int = next(bus for bus in order if bus not in self._taken)
        self._taken.add(found)
        return found


def _nic(root: Path, card: Path, nic: NicPlace, number: int) -> None:
    """An RDMA device mlx5_N with one active port, its device node, and its interface."""
    rdma, port = card / "infiniband" / f"mlx5_{number}", "ports/1"
    (rdma / port).mkdir(parents=True)
    _write(rdma / port / "state", "4: ACTIVE")
    _write(rdma / port / "rate", f"{nic.gbit_per_second} Gb/sec (4X)")
    _write(rdma / port / "link_layer", nic.link_layer)
    (card / "infiniband_verbs" / f"uverbs{number}").mkdir(parents=True)
    if nic.link_layer == "Ethernet":
        _write_made(rdma / port / "gid_attrs" / "types" / ROCE_GID, "RoCE v2")
        _write_made(rdma / port / "gids" / ROCE_GID, f"{IPV4_GID}:{number + 1:04x}")
    interface = card / "net" / nic.interface
    interface.mkdir(parents=True)
    _write(interface / "operstate", "up")
    _write(interface / "speed", nic.gbit_per_second * 1000)
    _write(interface / "type", 32 if nic.link_layer == "InfiniBand" else 1)
    for device, kind in ((rdma, "infiniband"), (interface, "net")):
        _link(device / "device", card)
        _link(root / "class" / kind / device.name, device)


def _write_made(path: Path, value: str) -> None:
    path.parent.mkdir(parents=True)
    _write(path, value)


def _write(path: Path, value: str | int) -> None:
    path.write_text(f"{value}\n", "utf-8")


def _link(link: Path, target: Path) -> None:
    """Relative, as the kernel's are: the tree can be moved."""
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(target, link.parent))
