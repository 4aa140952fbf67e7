"""The topology of this node, as its driver reports it now."""

from agents.nvml.session import Nvml
from agents.nvml.wiring import read_wiring
from agents.topology.pairs import Topology, topology_of


def read_topology(nvml: Nvml) -> Topology:
    """Every GPU that answers, and every pair of them. Raises NvmlFailure."""
    return topology_of(*read_wiring(nvml))
