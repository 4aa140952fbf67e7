"""Everything the suite reads of a node, as one JSON document.

Real and simulated nodes are read by this same code. Answers are those of `questions`. What the
agent's own readers are refused stands in `refusals` by the path of what is then empty; the rest is
read all the same.
"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import pynvml

from agents.contract.boards import board_named
from agents.facts.gpus import GpuFacts, InstanceFacts, ProfileFacts
from agents.facts.wiring import GpuWiring
from agents.nvml.errors import NvmlFailure
from agents.nvml.profiles import read_profiles
from agents.nvml.session import Nvml
from agents.simdriver.install import install
from agents.topology.pairs import GpuTopology, gpu_topology
from agents.topology.reading import read_topology
from tests.gpu import guard
from tests.gpu.questions import FACTS, PROBES, SETTINGS, TELEMETRY, question_answers

T = TypeVar("T")


class Refusals(dict[str, str]):
    """By path, the sentence of a refusal."""

    def spared(self, path: str, read: Callable[[], T], empty: T) -> T:
        """What `read` answers, or `empty` where the driver refuses."""
        try:
            return read()
        except NvmlFailure as failure:
            self[path] = str(failure)
            return empty


def read(simulated: bool = False) -> dict[str, Any]:
    """The whole node, in a session of its own. Raises NvmlFailure where NVML does not start."""
    nvml, refusals = Nvml(), Refusals()
    try:
        nothing = gpu_topology((), {})
        topology = refusals.spared("topology", lambda: read_topology(nvml), nothing)
        wirings = {wiring.uuid: wiring for wiring in topology.gpus}
        return {
            "simulated": simulated,
            "versions": asdict(nvml.versions()),
            "count": pynvml.nvmlDeviceGetCount(),
            "gpus": [
                _gpu(nvml, facts, wirings.get(facts.uuid), refusals) for facts in nvml.devices()
            ],
            "pairs": _pairs(topology),
            "nvswitch_domains": [list(domain) for domain in topology.domains],
            "mb_per_second": [list(row) for row in topology.matrix()],
            "refusals": refusals,
        }
    finally:
        nvml.close()


def settings() -> dict[str, Any]:
    """By UUID, what an administrator chose: modes, limits, clocks, and the MIG layout."""
    nvml, refusals = Nvml(), Refusals()
    try:
        return {
            gpu.uuid: {
                **question_answers(SETTINGS, pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)),
                "instances": _instances(nvml, gpu, refusals),
            }
            for gpu in nvml.devices()
        }
    finally:
        nvml.close()


def begin(simulated: Path | None) -> None:
    """Close the guard, and put the simulated driver in place where its state file is named."""
    guard.close()
    if simulated is not None:
        install(simulated)


def _gpu(
    nvml: Nvml, facts: GpuFacts, wiring: GpuWiring | None, refusals: Refusals
) -> dict[str, Any]:
    gpu = pynvml.nvmlDeviceGetHandleByUUID(facts.uuid)
    known = board_named(facts.product_name, facts.memory_mib)
    return {
        **asdict(facts),
        "board": known.key if known else None,
        "profiles": _profiles(facts, refusals),
        "instances": _instances(nvml, facts, refusals),
        "facts": question_answers(FACTS, gpu),
        "telemetry": question_answers(TELEMETRY, gpu),
        "probes": {name: told["code"] for name, told in question_answers(PROBES, gpu).items()},
        "wiring": _wiring(wiring) if wiring else None,
    }


def _profiles(facts: GpuFacts, refusals: Refusals) -> list[dict[str, Any]]:
    at, none = f"gpus.{facts.index}.profiles", list[ProfileFacts]()
    return [asdict(p) for p in refusals.spared(at, lambda: read_profiles(facts.uuid), none)]


def _instances(nvml: Nvml, facts: GpuFacts, refusals: Refusals) -> list[dict[str, Any]]:
    at, none = f"gpus.{facts.index}.instances", list[InstanceFacts]()
    return [asdict(i) for i in refusals.spared(at, lambda: nvml.instances(facts.uuid), none)]


def _wiring(wiring: GpuWiring) -> dict[str, Any]:
    return {
        "pcie_generation": wiring.pcie_generation,
        "pcie_width": wiring.pcie_width,
        "cpus": list(wiring.cpus),
        "numa_nodes": list(wiring.numa_nodes),
        "own_numa_node": wiring.own_numa_node,
        "nvlinks": [asdict(link) for link in wiring.links],
    }


def _pairs(topology: GpuTopology) -> dict[str, Any]:
    """By "0-1": the indices of the two."""
    return {
        f"{pair.first}-{pair.second}": {
            "level": pair.level,
            "nvlinks": pair.nvlinks,
            "switched": pair.switched,
            "p2p": asdict(pair.access),
            "mb_per_second": pair.mb_per_second,
        }
        for pair in topology.pairs
    }
