"""`agents topology`: how the GPUs are joined. JSON by docs/schemas/topology.json."""

import argparse
from collections.abc import Iterable
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from agents.commands.hardware import answer
from agents.nvml import Nvml
from agents.nvml_topology import read_topology
from agents.settings import simulated_driver
from agents.topology import GpuWiring, Pair, Topology

SCHEMA = 1
# In nvidia-smi's order. The words are ours.
LEGEND = """
  X    = itself
  SYS  = over the link between NUMA nodes (CPU sockets)
  NODE = over several PCIe host bridges of one NUMA node
  PHB  = over one PCIe host bridge
  PXB  = over several PCIe switches, no host bridge
  PIX  = over one PCIe switch
  NV#  = over # NVLinks
"""


def main(options: argparse.Namespace) -> int:
    return answer(_document if options.json else _text)


def _document(nvml: Nvml) -> dict[str, Any]:
    return document(read_topology(nvml), simulated=simulated_driver() is not None)


def _text(nvml: Nvml) -> str:
    return table(read_topology(nvml))


def document(topology: Topology, *, simulated: bool) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "simulated": simulated,
        "gpus": [_gpu(gpu) for gpu in topology.gpus],
        "pairs": [_pair(pair) for pair in topology.pairs],
        "nvswitch_domains": [list(domain) for domain in topology.domains],
        "mb_per_second": [list(row) for row in topology.matrix()],
    }


def table(topology: Topology) -> str:
    """Tab between cells, as nvidia-smi prints them, then what the words mean."""
    gpus = topology.gpus
    head = [f"GPU{gpu.index}" for gpu in gpus]
    rows = [["", *head, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]]
    for gpu in gpus:
        cells = [_word(topology, gpu, other) for other in gpus]
        own = "N/A" if gpu.own_numa_node is None else str(gpu.own_numa_node)
        near = [ranges(gpu.cpus), ranges(gpu.numa_nodes), own]
        rows.append([f"GPU{gpu.index}", *cells, *near])
    return "\n".join("\t".join(row) for row in rows) + "\n" + LEGEND


def ranges(numbers: Iterable[int]) -> str:
    """As Linux writes sets of CPUs: "0-3,8". Of none: "N/A"."""
    ordered = sorted(numbers)
    if not ordered:
        return "N/A"
    breaks = [(a, b) for a, b in pairwise(ordered) if b != a + 1]
    starts = [ordered[0], *(b for _, b in breaks)]
    ends = [*(a for a, _ in breaks), ordered[-1]]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def _word(topology: Topology, one: GpuWiring, other: GpuWiring) -> str:
    pair = topology.pair(one.index, other.index)
    return pair.word if pair else "X"


def _gpu(gpu: GpuWiring) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "pci_bus_id": gpu.pci_bus_id,
        "pcie": {
            "generation": gpu.pcie_generation,
            "width": gpu.pcie_width,
            "mb_per_second": gpu.pcie_mb_per_second,
        },
        "cpus": list(gpu.cpus),
        "numa_nodes": list(gpu.numa_nodes),
        "own_numa_node": gpu.own_numa_node,
        "nvlinks": [{**asdict(n), "mb_per_second": n.mb_per_second} for n in gpu.links],
    }


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "gpus": [pair.one, pair.other],
        "word": pair.word,
        "level": pair.level,
        "nvlinks": pair.nvlinks,
        "switched": pair.switched,
        "p2p": asdict(pair.access),
        "mb_per_second": pair.mb_per_second,
    }
