"""The place of a device on PCI and the distance between two devices, by sysfs paths. Pure.

Linux names the path in /sys/devices: `pci0000:10/0000:10:01.0/0000:11:00.0/0000:18:00.0` is a host
bridge, its root port, bridges (a switch has an upstream port and a downstream port for each device)
and the device. The rule is that of NCCL's and nvidia-smi's distances, in nvidia-smi's words.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agents.facts.wiring import PathLevel

ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}\Z")
DEVICE = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")


@dataclass(frozen=True, slots=True)
class PciPlace:
    """The path of a device from its host bridge."""

    root: str
    # From the root port to the device itself.
    steps: tuple[str, ...]
    # None if the kernel does not report it.
    numa_node: int | None = None

    @property
    def bus_id(self) -> str:
        return self.steps[-1]


def place_of(parts: Sequence[str], numa_node: int | None = None) -> PciPlace | None:
    """From the names of a path below /sys/devices; what follows the PCI device, such as
    `virtio0/net/eth0`, is left out. None where it begins with no PCI host bridge."""
    at = next((i for i, part in enumerate(parts) if ROOT.match(part)), None)
    if at is None:
        return None
    steps = []
    for part in parts[at + 1 :]:
        if not DEVICE.match(part):
            break
        steps.append(part)
    return PciPlace(parts[at], tuple(steps), numa_node) if steps else None


def level_between(first: PciPlace, second: PciPlace) -> PathLevel:
    """What the path between two devices crosses."""
    if first.root != second.root:
        same = first.numa_node == second.numa_node  # both None: one NUMA node
        return PathLevel.NUMA_NODE if same else PathLevel.SYSTEM
    shared = _shared(first.steps, second.steps)
    if shared == len(first.steps) == len(second.steps):
        return PathLevel.INTERNAL
    if not shared:
        return PathLevel.HOST_BRIDGE
    # Behind one switch are at most its downstream port and the device itself.
    beyond = max(len(first.steps), len(second.steps)) - shared
    return PathLevel.SINGLE_SWITCH if beyond <= 2 else PathLevel.SEVERAL_SWITCHES


def kernel_bus_id(bus_id: str) -> str:
    """The driver's 00000000:18:00.0 as Linux writes it, 0000:18:00.0. Raises ValueError."""
    domain, _, rest = bus_id.partition(":")
    return f"{int(domain, 16):04x}:{rest.lower()}"


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    for count, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return count
    return min(len(one), len(other))
