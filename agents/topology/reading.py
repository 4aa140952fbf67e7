"""The topology of this node, as its driver reports it now."""

from agents.nvml.session import Nvml
from agents.nvml.wiring import read_wiring
from agents.topology.pairs import GpuTopology, gpu_topology


def read_topology(nvml: Nvml) -> GpuTopology:
    """Every GPU that answers, and every pair of them. Raises NvmlFailure."""
    return gpu_topology(*read_wiring(nvml))
