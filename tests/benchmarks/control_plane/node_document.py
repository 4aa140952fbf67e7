"""The observed document of one simulated node, as the agent itself makes it, for many nodes.

It is built once by the agent's own parts on the simulated driver; each coroutine agent then only
puts its own ids and its replicas in, so that what goes over the wire is as large as the real one.
"""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.commands.hardware import network_of
from agents.contract.codec import encode
from agents.contract.topology import NodeTopology
from agents.hardware import Hardware
from agents.loop.observe import observed_document
from agents.nvml.session import Nvml
from agents.runtime.process import ProcessRuntime
from agents.simdriver.install import install, uninstall
from agents.simdriver.state import new_node
from agents.simdriver.store import Store
from agents.topology.reading import read_topology
from agents.topology.wiring import WiringCache, topology_report

BOARD = "H200-141GB"
# More than the jobs of a benchmark take together.
CPU_MILLI, MEMORY_MIB = 64_000, 512 * 1_024


@dataclass(frozen=True, slots=True)
class NodeDocument:
    """The JSON text without the replicas, with the ids of the node that it was made on."""

    text: str
    gpus: tuple[str, ...]

    def of(self, node_id: str, name: str, boot: str) -> str:
        """The text for another node, up to where its replicas begin."""
        text = self.text.replace("NODE-ID", node_id).replace("BOOT-ID", boot)
        for uuid in self.gpus:
            text = text.replace(uuid, f"{uuid[:-12]}{name.rjust(12, '0')[-12:]}")
        return text


def node_document(gpus: int) -> NodeDocument:
    with tempfile.TemporaryDirectory(prefix="tessera-node-") as folder:
        path = Path(folder) / "driver.json"
        Store(path).create(new_node(board=BOARD, gpus=gpus, seed=1, latency=False))
        install(path)
        try:
            observed = _observed(Path(folder))
        finally:
            uninstall()
    observed["facts"] |= {"cpu_milli": CPU_MILLI, "memory_mib": MEMORY_MIB}
    observed["boot_id"] = "BOOT-ID"
    del observed["replicas"]
    uuids = tuple(gpu["uuid"] for gpu in observed["gpus"])
    return NodeDocument(json.dumps(observed)[:-1], uuids)


def _observed(folder: Path) -> dict[str, Any]:
    nvml, runtime = Nvml(), ProcessRuntime(folder / "replicas")

    def topology() -> NodeTopology:
        wires = read_topology(nvml)
        return topology_report(wires, network_of(wires))

    try:
        hardware = Hardware(nvml, runtime, folder, simulated=True, wiring=WiringCache(topology))
        document: dict[str, Any] = encode(observed_document("NODE-ID", hardware, (), {}, {}))
        return document
    finally:
        runtime.close()
        nvml.close()
