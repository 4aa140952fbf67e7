"""How the GPUs of a node are connected, as the driver reports it.

Bandwidths are MB/s (10^6 bytes) in one direction: the theoretical maximum of the wires.
"""

from dataclasses import dataclass
from enum import StrEnum

# One direction of one link. NVIDIA's data sheets give both directions of all links of a GPU:
# P100 160 GB/s by 4, V100 300 by 6, A100 600 by 12, H100 900 by 18, B200 1800 by 18.
NVLINK_MB_PER_SECOND = {
    "1.0": 20_000,
    "2.0": 25_000,
    "2.2": 25_000,
    "3.0": 25_000,
    "3.1": 25_000,
    "4.0": 25_000,
    "5.0": 50_000,
}
# One direction of one lane: PCI-SIG's transfers a second (in millions), times the share that is
# payload: 8b/10b up to generation 2, 128b/130b up to 5, 242 of 256 bytes of a flit in 6.
PCIE_LANE = {
    1: (2_500, 8, 10),
    2: (5_000, 8, 10),
    3: (8_000, 128, 130),
    4: (16_000, 128, 130),
    5: (32_000, 128, 130),
    6: (64_000, 242, 256),
}


class PathLevel(StrEnum):
    """What the PCIe path between two GPUs crosses, in nvidia-smi's words; nearest first."""

    INTERNAL = "INT"
    SINGLE_SWITCH = "PIX"
    SEVERAL_SWITCHES = "PXB"
    HOST_BRIDGE = "PHB"
    NUMA_NODE = "NODE"
    SYSTEM = "SYS"


class LinkPeer(StrEnum):
    """What is at the other end of an NVLink."""

    GPU = "gpu"
    SWITCH = "switch"
    OTHER_DEVICE = "other"


class PeerStatus(StrEnum):
    """The driver's status of one kind of access between two GPUs."""

    OK = "ok"
    CHIPSET_NOT_SUPPORTED = "chipset_not_supported"
    GPU_NOT_SUPPORTED = "gpu_not_supported"
    TOPOLOGY_NOT_SUPPORTED = "topology_not_supported"
    DISABLED_BY_REGISTRY = "disabled_by_registry"
    NOT_SUPPORTED = "not_supported"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PeerAccess:
    """Peer access between two GPUs. If `nvlink` is not OK, existing links carry nothing."""

    read: PeerStatus = PeerStatus.UNKNOWN
    write: PeerStatus = PeerStatus.UNKNOWN
    nvlink: PeerStatus = PeerStatus.UNKNOWN
    atomics: PeerStatus = PeerStatus.UNKNOWN


class FabricState(StrEnum):
    """How far a GPU is with joining its NVLink fabric."""

    NOT_SUPPORTED = "not_supported"
    NOT_STARTED = "not_started"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class NvlinkFabric:
    """The NVLink fabric that a GPU belongs to."""

    state: FabricState
    # A UUID; empty if it is all zeros, which means that the fabric ends at the node.
    cluster: str = ""
    clique: int = 0

    @property
    def domain(self) -> str:
        """GPUs with equal domains, on any nodes, reach each other by NVLink. Empty: none do."""
        is_joined = self.state is FabricState.COMPLETED and self.cluster
        return f"{self.cluster}.{self.clique}" if is_joined else ""


@dataclass(frozen=True, slots=True)
class NvLink:
    """An active link of one GPU."""

    number: int
    # Such as "4.0"; empty if the driver does not report it.
    generation: str
    remote: LinkPeer
    remote_bus_id: str

    @property
    def mb_per_second(self) -> int:
        """By generation; an unknown one counts as the slowest, since links only got faster."""
        return NVLINK_MB_PER_SECOND.get(self.generation, min(NVLINK_MB_PER_SECOND.values()))


@dataclass(frozen=True, slots=True)
class GpuWiring:
    """One GPU's connections to the host, to NVLinks and to a fabric."""

    index: int
    uuid: str
    pci_bus_id: str
    # The highest that card and board support; an idle GPU runs slower.
    pcie_generation: int | None = None
    pcie_width: int | None = None
    # The nearest ones; empty if the driver does not report them.
    cpus: tuple[int, ...] = ()
    numa_nodes: tuple[int, ...] = ()
    # Set only if the GPU is itself a NUMA node (Grace Hopper).
    own_numa_node: int | None = None
    links: tuple[NvLink, ...] = ()
    # None if the board or the driver has no fabric.
    fabric: NvlinkFabric | None = None

    @property
    def pcie_mb_per_second(self) -> int:
        """One direction of all lanes; 0 if the driver does not report them."""
        if self.pcie_generation not in PCIE_LANE or not self.pcie_width:
            return 0
        rate, payload, sent = PCIE_LANE[self.pcie_generation]
        return self.pcie_width * rate * payload // sent // 8

    @property
    def switches(self) -> frozenset[str]:
        return frozenset(n.remote_bus_id for n in self.links if n.remote is LinkPeer.SWITCH)


@dataclass(frozen=True, slots=True)
class GpuPath:
    """The path between two GPUs."""

    # None if the driver does not report it.
    level: PathLevel | None
    access: PeerAccess
