"""`agents topology`: how the GPUs are connected. JSON by docs/schemas/topology.json."""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from agents.commands.hardware import network_of, print_reading
from agents.nvml.session import Nvml
from agents.settings import simulated_driver
from agents.topology.json_format import topology_document
from agents.topology.reading import read_topology
from agents.topology.table import topology_table


def main(options: argparse.Namespace) -> int:
    return print_reading(partial(_document if options.json else _text, options.sysfs))


def _document(sysfs: Path | None, nvml: Nvml) -> dict[str, Any]:
    topology = read_topology(nvml)
    simulated = simulated_driver() is not None
    return topology_document(topology, network_of(topology, sysfs), simulated=simulated)


def _text(sysfs: Path | None, nvml: Nvml) -> str:
    topology = read_topology(nvml)
    return topology_table(topology, network_of(topology, sysfs))
