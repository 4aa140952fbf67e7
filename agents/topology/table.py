"""The topology as text, in the order and terms of `nvidia-smi topo`."""

from collections.abc import Callable, Iterable
from itertools import pairwise

from agents.facts.wiring import GpuWiring, PathLevel, PeerStatus
from agents.topology.nics import Network, Nic
from agents.topology.pairs import GpuTopology, Pair
from agents.topology.pci import level_between

# In nvidia-smi's order. The sentences are ours.
LEGEND = """
  X    = itself
  SYS  = over the link between NUMA nodes (CPU sockets)
  NODE = over several PCIe host bridges of one NUMA node
  PHB  = over one PCIe host bridge
  PXB  = over several PCIe switches, no host bridge
  PIX  = over one PCIe switch
  NV#  = over # NVLinks
"""
# As `nvidia-smi topo -p2p` shortens them.
ACCESS = {
    PeerStatus.OK: "OK",
    PeerStatus.CHIPSET_NOT_SUPPORTED: "CNS",
    PeerStatus.GPU_NOT_SUPPORTED: "GNS",
    PeerStatus.TOPOLOGY_NOT_SUPPORTED: "TNS",
    PeerStatus.DISABLED_BY_REGISTRY: "DR",
    PeerStatus.NOT_SUPPORTED: "NS",
    PeerStatus.UNKNOWN: "U",
}
ACCESS_LEGEND = """
  OK   = allowed
  CNS  = not by this chipset
  GNS  = not by this GPU
  TNS  = not over this path
  DR   = disabled by the driver's settings
  NS   = not supported, as while MIG is on
  U    = unknown
"""
SELF = "X"


def topology_table(topology: GpuTopology, network: Network | None = None) -> str:
    """Tab between cells. The paths with their legends, then the rates, then peer access."""
    network = network or Network()
    parts = [
        _lines(_paths(topology, network)) + LEGEND,
        _nic_legend(topology, network),
        _fabrics(topology),
        _square(
            topology,
            "GB/s in one direction, at best",
            lambda pair: f"{pair.mb_per_second / 1000:g}",
        ),
        _square(
            topology,
            "Peer access: read/write/NVLink/atomics",
            lambda pair: "/".join(
                ACCESS[one]
                for one in (
                    pair.access.read,
                    pair.access.write,
                    pair.access.nvlink,
                    pair.access.atomics,
                )
            ),
        )
        + (ACCESS_LEGEND if len(topology.gpus) > 1 else ""),
    ]
    return "\n".join(part for part in parts if part)


def format_ranges(numbers: Iterable[int]) -> str:
    """As Linux writes sets of CPUs: "0-3,8". Of none: "N/A"."""
    ordered = sorted(numbers)
    if not ordered:
        return "N/A"
    breaks = [(a, b) for a, b in pairwise(ordered) if b != a + 1]
    starts = [ordered[0], *(b for _, b in breaks)]
    ends = [*(a for a, _ in breaks), ordered[-1]]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def _paths(topology: GpuTopology, network: Network) -> list[list[str]]:
    gpus, nics = topology.gpus, network.nics
    names = [f"GPU{gpu.index}" for gpu in gpus] + [f"NIC{nic.index}" for nic in nics]
    rows = [["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]]
    for gpu in gpus:
        cells = [_word(topology, gpu, other) for other in gpus]
        cells += [network.level(gpu.index, nic) or "N/A" for nic in nics]
        own = "N/A" if gpu.own_numa_node is None else str(gpu.own_numa_node)
        near = [format_ranges(gpu.cpus), format_ranges(gpu.numa_nodes), own]
        rows.append([f"GPU{gpu.index}", *cells, *near])
    for nic in nics:
        cells = [network.level(gpu.index, nic) or "N/A" for gpu in gpus]
        rows.append([f"NIC{nic.index}", *cells, *(_between(nic, other) for other in nics)])
    return rows


def _word(topology: GpuTopology, one: GpuWiring, other: GpuWiring) -> str:
    pair = topology.pair(one.index, other.index)
    return pair.label if pair else SELF


def _between(one: Nic, other: Nic) -> str:
    if one.index == other.index:
        return SELF
    level = level_between(one.place, other.place)
    return PathLevel.SINGLE_SWITCH if level is PathLevel.INTERNAL else level


def _nic_legend(topology: GpuTopology, network: Network) -> str:
    if not network.nics:
        return ""
    rails = network.rails()
    lines = []
    for nic in network.nics:
        rate = f"{nic.mbit_per_second / 1000:g} Gbit/s" if nic.up else "down"
        about = [nic.link_layer or "unknown link layer", rate, *nic.interfaces]
        served = [g.index for g in topology.gpus if rails.get(g.index) == nic]
        rail = f"; rail of {', '.join(f'GPU{index}' for index in served)}" if served else ""
        lines.append(f"  NIC{nic.index}: {nic.name} ({', '.join(about)}){rail}")
    return "NIC Legend:\n\n" + "\n".join(lines) + "\n"


def _fabrics(topology: GpuTopology) -> str:
    told = [gpu for gpu in topology.gpus if gpu.fabric and gpu.fabric.domain]
    domains = {gpu.fabric.domain: gpu.fabric for gpu in told if gpu.fabric}
    lines = []
    for domain, fabric in domains.items():
        members = format_ranges(g.index for g in told if g.fabric and g.fabric.domain == domain)
        where = f"cluster {fabric.cluster}, clique {fabric.clique}"
        lines.append(f"NVLink fabric: GPUs {members} in {where}")
    return "\n".join(lines) + "\n" if lines else ""


def _square(topology: GpuTopology, title: str, cell: Callable[[Pair], str]) -> str:
    """Every GPU against every other; nothing for a single one."""
    gpus = topology.gpus
    if len(gpus) < 2:
        return ""
    rows = [["", *(f"GPU{gpu.index}" for gpu in gpus)]]
    for one in gpus:
        pairs = [topology.pair(one.index, other.index) for other in gpus]
        rows.append([f"GPU{one.index}", *(cell(pair) if pair else SELF for pair in pairs)])
    return f"{title}:\n{_lines(rows)}"


def _lines(rows: list[list[str]]) -> str:
    return "\n".join("\t".join(row) for row in rows) + "\n"
