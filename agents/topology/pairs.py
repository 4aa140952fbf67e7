"""The GPU pairs of a node, from the links and paths that NVML reports. Pure.

Bandwidths are nominal maxima in MB/s (10^6 bytes) in one direction; nothing is measured. NCCL gets
78 to 82 % of them in a ring.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from agents.facts.wiring import GpuPath, GpuWiring, NvLink, PathLevel, PeerAccess, PeerStatus


@dataclass(frozen=True, slots=True)
class Pair:
    """Two GPUs by index, `first` < `second`."""

    first: int
    second: int
    level: PathLevel | None
    access: PeerAccess
    nvlinks: int
    switched: bool
    mb_per_second: int

    @property
    def is_open(self) -> bool:
        """Whether the driver allows the links: not while one GPU is in MIG mode."""
        return self.access.nvlink in (PeerStatus.OK, PeerStatus.UNKNOWN)

    @property
    def label(self) -> str:
        """As `nvidia-smi topo -m` prints it."""
        return f"NV{self.nvlinks}" if self.nvlinks else self.level or "N/A"


@dataclass(frozen=True, slots=True)
class GpuTopology:
    """The GPUs of a node and how they are connected."""

    gpus: tuple[GpuWiring, ...]
    pairs: tuple[Pair, ...]
    # Sets of GPU indices that share NVSwitches.
    domains: tuple[tuple[int, ...], ...]

    def pair(self, first: int, second: int) -> Pair | None:
        key = (min(first, second), max(first, second))
        return next((p for p in self.pairs if (p.first, p.second) == key), None)

    def matrix(self) -> tuple[tuple[int, ...], ...]:
        """MB/s in one direction from row to column, in the order of `gpus`; 0 to itself."""
        found = {(p.first, p.second): p.mb_per_second for p in self.pairs}
        order = [gpu.index for gpu in self.gpus]
        return tuple(tuple(found.get((min(a, b), max(a, b)), 0) for b in order) for a in order)


def gpu_topology(
    gpus: tuple[GpuWiring, ...], paths: Mapping[tuple[int, int], GpuPath]
) -> GpuTopology:
    """`paths` is keyed by (lower, higher) index and may lack pairs."""
    unknown = GpuPath(None, PeerAccess())
    pairs = tuple(
        _pair(one, other, paths.get((one.index, other.index), unknown))
        for one in gpus
        for other in gpus
        if one.index < other.index
    )
    return GpuTopology(gpus, pairs, _domains(gpus))


def _pair(one: GpuWiring, other: GpuWiring, path: GpuPath) -> Pair:
    direct = [n for n in one.links if n.remote_bus_id == other.pci_bus_id]
    through = _through_switches(one, other)
    joining = direct or through
    usable = path.access.nvlink in (PeerStatus.OK, PeerStatus.UNKNOWN)
    fast = sum(n.mb_per_second for n in joining) if usable else 0
    slow = min(one.pcie_mb_per_second, other.pcie_mb_per_second)
    return Pair(
        first=one.index,
        second=other.index,
        level=path.level,
        access=path.access,
        nvlinks=len(joining),
        switched=bool(through) and not direct,
        mb_per_second=fast or slow,
    )


def _through_switches(one: GpuWiring, other: GpuWiring) -> list[NvLink]:
    """The links to common switches, of the GPU with fewer links: a switch connects any two ports
    at full rate, so that GPU is the limit."""
    common = one.switches & other.switches
    ends = [[n for n in gpu.links if n.remote_bus_id in common] for gpu in (one, other)]
    return min(ends, key=lambda links: sum(n.mb_per_second for n in links))


def _domains(gpus: tuple[GpuWiring, ...]) -> tuple[tuple[int, ...], ...]:
    """GPUs connected by common switches, also indirectly; a single GPU is not a domain."""
    groups: list[tuple[set[str], set[int]]] = []
    for gpu in gpus:
        switches, members = set(gpu.switches), {gpu.index}
        if not switches:
            continue
        for group in [g for g in groups if g[0] & switches]:
            groups.remove(group)
            switches |= group[0]
            members |= group[1]
        groups.append((switches, members))
    return tuple(sorted(tuple(sorted(members)) for _, members in groups if len(members) > 1))
