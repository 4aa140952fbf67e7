"""How the GPUs of a node are joined: pure values, made from what `nvml_topology` reads.

Bandwidths are MB/s (10^6 bytes) in one direction, as integers: what the wires carry at best. NCCL
gets 78 to 82 % of it in a ring. Nothing here was measured on the node.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from agents.facts.wiring import GpuPath, GpuWiring, NvLink, PathLevel, PeerAccess, PeerStatus


@dataclass(frozen=True, slots=True)
class Pair:
    """Two GPUs by index, `one` < `other`. `nvlinks` counts those that join them, by an NVSwitch
    where `switched`; they count for `mb_per_second` only while the driver lets them be used."""

    first: int
    second: int
    level: PathLevel | None
    access: PeerAccess
    nvlinks: int
    switched: bool
    mb_per_second: int

    @property
    def is_open(self) -> bool:
        """Whether the driver lets the links be used: not while MIG is on at one end."""
        return self.access.nvlink in (PeerStatus.OK, PeerStatus.UNKNOWN)

    @property
    def label(self) -> str:
        """As `nvidia-smi topo -m` prints it."""
        return f"NV{self.nvlinks}" if self.nvlinks else self.level or "N/A"


@dataclass(frozen=True, slots=True)
class GpuTopology:
    """`domains` are the sets of GPUs that share NVSwitches, by index."""

    gpus: tuple[GpuWiring, ...]
    pairs: tuple[Pair, ...]
    domains: tuple[tuple[int, ...], ...]

    def pair(self, first: int, second: int) -> Pair | None:
        wanted = (min(first, second), max(first, second))
        return next((p for p in self.pairs if (p.first, p.second) == wanted), None)

    def matrix(self) -> tuple[tuple[int, ...], ...]:
        """MB/s in one direction from row to column, in the order of `gpus`; 0 to itself."""
        found = {(p.first, p.second): p.mb_per_second for p in self.pairs}
        order = [gpu.index for gpu in self.gpus]
        return tuple(tuple(found.get((min(a, b), max(a, b)), 0) for b in order) for a in order)


def gpu_topology(
    gpus: tuple[GpuWiring, ...], paths: Mapping[tuple[int, int], GpuPath]
) -> GpuTopology:
    """Put together. `paths` is keyed by (lower, higher) index and may lack pairs."""
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
    """The links to switches that both GPUs reach, of the GPU that has fewer: a switch joins any
    port with any other at full rate, so the poorer end is the limit."""
    common = one.switches & other.switches
    ends = [[n for n in gpu.links if n.remote_bus_id in common] for gpu in (one, other)]
    return min(ends, key=lambda links: sum(n.mb_per_second for n in links))


def _domains(gpus: tuple[GpuWiring, ...]) -> tuple[tuple[int, ...], ...]:
    """Connected by common switches, directly or by way of others; one GPU alone is no domain."""
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
