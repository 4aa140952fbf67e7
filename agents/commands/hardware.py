"""Shared by the commands that read the hardware: the driver session and the output."""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from agents.admission.policy import NodePolicy
from agents.facts.wiring import GpuWiring
from agents.host.system_reserve import host_capacity
from agents.nvml.errors import NvmlFailure
from agents.nvml.session import Nvml
from agents.settings import simulated_driver
from agents.simdriver.install import install
from agents.simdriver.sysfs import sysfs_tree
from agents.topology.nics import Network
from agents.topology.numa import NumaHost, numa_host, read_numa_nodes
from agents.topology.pairs import GpuTopology
from agents.topology.sysfs import read_network, sysfs_root


@contextlib.contextmanager
def session() -> Iterator[Nvml]:
    """The real driver, or the simulated one if it is set. Raises NvmlFailure, OSError."""
    simulated = simulated_driver()
    if simulated is not None:
        install(simulated)
    nvml = Nvml()
    try:
        yield nvml
    finally:
        nvml.close()


def network_of(topology: GpuTopology, sysfs: Path | None = None) -> Network:
    """The NICs beside these GPUs: from `sysfs`, else as `sysfs_root` says. Raises OSError."""
    root = sysfs or network_tree()
    return read_network(root, {gpu.index: gpu.pci_bus_id for gpu in topology.gpus})


def network_tree() -> Path:
    """The sysfs that has this node's cards: that of the simulated node, if it is one."""
    state = simulated_driver()
    return sysfs_root(sysfs_tree(state) if state else None)


def read_numa_host(gpus: Iterable[GpuWiring], policy: NodePolicy) -> NumaHost:
    """The NUMA nodes with the CPUs and the memory that jobs may use. A simulated node has none."""
    total = host_capacity()
    kept = policy.reserve(total, simulated=simulated_driver() is not None)
    root = network_tree()
    part = total.without(kept).memory_mib / total.memory_mib
    return numa_host(read_numa_nodes(root, frozenset(os.sched_getaffinity(0)), part), gpus)


def print_reading(read: Callable[[Nvml], dict[str, Any] | str]) -> int:
    """Print the result of `read` as JSON or text. Exit status 1, with one sentence, on an error."""
    try:
        with session() as nvml:
            result = read(nvml)
    except (NvmlFailure, OSError) as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    sys.stdout.write(result if isinstance(result, str) else json.dumps(result, indent=1) + "\n")
    return 0
