"""What the reading commands share: a session with the driver, and how an answer is printed."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agents.nvml.errors import NvmlFailure
from agents.nvml.session import Nvml
from agents.settings import simulated_driver
from agents.simdriver.install import install
from agents.simdriver.sysfs import sysfs_tree
from agents.topology.nics import Network
from agents.topology.pairs import GpuTopology
from agents.topology.sysfs import read_network, sysfs_root


@contextlib.contextmanager
def session() -> Iterator[Nvml]:
    """The real driver, or the simulated one where it is set. Raises NvmlFailure, OSError."""
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
    state = simulated_driver()
    root = sysfs or sysfs_root(sysfs_tree(state) if state else None)
    return read_network(root, {gpu.index: gpu.pci_bus_id for gpu in topology.gpus})


def print_reading(read: Callable[[Nvml], dict[str, Any] | str]) -> int:
    """Print what `read` says: JSON, or text as it is. 1 and one sentence where nothing answers."""
    try:
        with session() as nvml:
            said = read(nvml)
    except (NvmlFailure, OSError) as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    sys.stdout.write(said if isinstance(said, str) else json.dumps(said, indent=1) + "\n")
    return 0
