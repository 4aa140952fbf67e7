"""The NUMA nodes of this host, and to which of them a replica is bound. Pure, except for reading
the nodes from sysfs (the kernel's Documentation/ABI/stable/sysfs-devices-node)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agents.contract.documents import DesiredReplica, Device, SliceKind
from agents.facts.wiring import GpuWiring

MEM_TOTAL = re.compile(r"MemTotal:\s+([0-9]+) kB")
# Of most boards. A slice of a board with four counts half, so that less is bound, never more.
MEMORY_SLICES = 8


@dataclass(frozen=True, slots=True)
class NumaNode:
    """A node of the host. `cpus`: those that jobs may use; `memory_mib`: what jobs may have."""

    number: int
    cpus: frozenset[int]
    memory_mib: int


@dataclass(frozen=True, slots=True)
class NumaBinding:
    """Lists as the kernel writes them, such as "0-15,32"; empty: not bound."""

    cpus: str = ""
    memory_nodes: str = ""


UNBOUND = NumaBinding()


@dataclass(frozen=True, slots=True)
class NumaHost:
    """The nodes of a host by number, and the nearest node of each GPU by its UUID."""

    nodes: Mapping[int, NumaNode] = field(default_factory=dict)
    near: Mapping[str, int] = field(default_factory=dict)

    def binding(self, replica: DesiredReplica, *, memory: bool = True) -> NumaBinding:
        """To the nodes of the replica's GPUs, if it asks for no more than its GPUs' part of them.

        Each GPU has an even part of its node, so that all that are bound fit beside each other. One
        that asks for more is not bound: it would be slower, or killed, beside free CPUs or memory
        of another node. `memory`: bind the memory as well."""
        devices = replica.devices
        used = {self.near.get(device.gpu_uuid) for device in devices}
        chosen = [self.nodes[number] for number in sorted(n for n in used if n is not None)]
        if not chosen or None in used or len(chosen) == len(self.nodes):
            return UNBOUND
        cpu_milli = sum(1_000 * len(self._of(d).cpus) * self._part(d) for d in devices)
        memory_mib = sum(self._of(d).memory_mib * self._part(d) for d in devices)
        cpus = {cpu for node in chosen for cpu in node.cpus}
        numbers = (node.number for node in chosen)
        return NumaBinding(
            cpus=as_list(cpus) if replica.cpu_milli <= cpu_milli else "",
            memory_nodes=as_list(numbers) if memory and replica.memory_mib <= memory_mib else "",
        )

    def _of(self, device: Device) -> NumaNode:
        return self.nodes[self.near[device.gpu_uuid]]

    def _part(self, device: Device) -> float:
        """The device's part of the CPUs and the memory of its node."""
        node = self.near[device.gpu_uuid]
        return _width(device) / sum(number == node for number in self.near.values())


def numa_host(nodes: Iterable[NumaNode], gpus: Iterable[GpuWiring]) -> NumaHost:
    """A GPU whose node the driver does not report, or that the host does not have, has none."""
    known = {node.number: node for node in nodes if node.cpus and node.memory_mib}
    near = {gpu.uuid: gpu.numa_nodes[0] for gpu in gpus if gpu.numa_nodes}
    return NumaHost(known, {uuid: node for uuid, node in near.items() if node in known})


def read_numa_nodes(root: Path, usable_cpus: frozenset[int], jobs_part: float) -> list[NumaNode]:
    """Of the sysfs below `root`; empty if it has none. `jobs_part`: of the memory, what jobs may
    have, from 0 to 1."""
    found = []
    for folder in sorted((root / "devices" / "system" / "node").glob("node[0-9]*")):
        try:
            cpus = from_list((folder / "cpulist").read_text("utf-8"))
            memory = MEM_TOTAL.search((folder / "meminfo").read_text("utf-8"))
        except (OSError, ValueError):
            continue
        total_mib = int(memory[1]) >> 10 if memory else 0
        number = int(folder.name.removeprefix("node"))
        found.append(NumaNode(number, cpus & usable_cpus, int(total_mib * jobs_part)))
    return found


def from_list(text: str) -> frozenset[int]:
    """Parses "0-15,32". Raises ValueError."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)


def as_list(numbers: Iterable[int]) -> str:
    """The inverse of `from_list`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _width(device: Device) -> float:
    """The part of its GPU, from 0 to 1; a share of a slice counts as the share of a whole GPU at
    most as wide as the slice."""
    part = 1.0 if not device.profile else min(1.0, device.size / MEMORY_SLICES)
    return part * device.threads / 100 if device.kind is SliceKind.MPS else part
