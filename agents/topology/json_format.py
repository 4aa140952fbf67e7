"""The topology as JSON, by docs/schemas/topology.json and inventory.json."""

from dataclasses import asdict
from typing import Any

from agents.facts.wiring import GpuWiring, NvlinkFabric
from agents.topology.nics import Network, Nic
from agents.topology.pairs import GpuTopology, Pair

SCHEMA = 1


def topology_document(
    topology: GpuTopology, network: Network, *, simulated: bool
) -> dict[str, Any]:
    """The topology document. `rail` is the index of a NIC."""
    rails = {gpu: nic.index for gpu, nic in network.rails().items()}
    return {
        "schema": SCHEMA,
        "simulated": simulated,
        "gpus": [{**_gpu(gpu), "rail": rails.get(gpu.index)} for gpu in topology.gpus],
        "pairs": [_pair(pair) for pair in topology.pairs],
        "nvswitch_domains": [list(domain) for domain in topology.domains],
        "nics": nic_documents(topology, network),
        "mb_per_second": [list(row) for row in topology.matrix()],
    }


def nic_documents(topology: GpuTopology, network: Network) -> list[dict[str, Any]]:
    """`levels` in the order of the GPUs."""
    return [_nic(nic, topology, network) for nic in network.nics]


def fabric_document(nvlink_fabric: NvlinkFabric | None) -> dict[str, Any] | None:
    """`cluster` is null if the fabric ends at the node."""
    if nvlink_fabric is None:
        return None
    return {
        "state": nvlink_fabric.state,
        "cluster": nvlink_fabric.cluster or None,
        "clique": nvlink_fabric.clique,
    }


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
        "fabric": fabric_document(gpu.fabric),
        "nvlinks": [{**asdict(n), "mb_per_second": n.mb_per_second} for n in gpu.links],
    }


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "gpus": [pair.first, pair.second],
        "word": pair.label,
        "level": pair.level,
        "nvlinks": pair.nvlinks,
        "switched": pair.switched,
        "p2p": asdict(pair.access),
        "mb_per_second": pair.mb_per_second,
    }


def _nic(nic: Nic, topology: GpuTopology, network: Network) -> dict[str, Any]:
    return {
        "index": nic.index,
        "name": nic.name,
        "interfaces": list(nic.interfaces),
        "rdma": nic.rdma,
        "link_layer": nic.link_layer,
        "up": nic.up,
        "mb_per_second": nic.mb_per_second,
        "port": nic.port,
        "gid_index": nic.gid_index,
        "pci_bus_id": nic.place.bus_id,
        "pci_path": [nic.place.root, *nic.place.steps],
        "numa_node": nic.place.numa_node,
        "levels": [network.level(gpu.index, nic) for gpu in topology.gpus],
    }
