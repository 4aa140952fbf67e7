"""How the GPUs of a node are connected, as the node reports it, small enough for every document.

GPUs are named by their index in the driver. Rates are the theoretical maximum in MB/s (10^6 bytes)
in one direction; none of them was measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agents.contract.codec import omitted_by_default, rule
from agents.contract.node_limits import MAX_GPUS, MAX_PAIRS

INDEX = rule(minimum=0, maximum=255)


class GroupKind(StrEnum):
    """What a group of GPUs shares."""

    NVSWITCH = "nvswitch"
    NVLINK = "nvlink"
    NUMA = "numa"


@dataclass(frozen=True, slots=True)
class GpuPair:
    """Two GPUs, the lower index first."""

    one: int = field(metadata=INDEX)
    other: int = field(metadata=INDEX)
    # What the PCIe path crosses, in nvidia-smi's terms; empty if unknown.
    level: str = field(default="", metadata=rule(max_length=8))
    # Links between the two, through NVSwitches if `switched`.
    nvlinks: int = field(default=0, metadata=rule(minimum=0, maximum=255))
    switched: bool = False
    mb_per_second: int = field(default=0, metadata=rule(minimum=0))

    @property
    def label(self) -> str:
        """As `nvidia-smi topo -m` prints it; empty if unknown."""
        return f"NV{self.nvlinks}" if self.nvlinks else self.level


@dataclass(frozen=True, slots=True)
class GpuGroup:
    """GPUs that share an NVSwitch, NVLinks or a NUMA node."""

    kind: GroupKind
    gpus: tuple[int, ...] = field(default=(), metadata=rule(max_length=MAX_GPUS))
    # Of the slowest pair; of NVLink groups, among pairs whose links are usable (MIG closes them).
    # 0 if there is no such pair.
    mb_per_second: int = field(default=0, metadata=rule(minimum=0))
    # The NUMA node's number, else 0.
    number: int = field(default=0, metadata=rule(minimum=0))


@dataclass(frozen=True, slots=True)
class FabricClique:
    """GPUs of an NVLink fabric that spans nodes: `cluster` (a UUID) and `clique` are equal on all
    of its nodes."""

    cluster: str = field(metadata=rule(max_length=64))
    clique: int = field(default=0, metadata=rule(minimum=0))
    gpus: tuple[int, ...] = field(default=(), metadata=rule(max_length=MAX_GPUS))


@dataclass(frozen=True, slots=True)
class ReportedNic:
    """A network card."""

    name: str = field(metadata=rule(max_length=64))
    link_layer: str = field(default="", metadata=rule(max_length=32))
    rdma: bool = False
    up: bool = False
    mb_per_second: int = field(default=0, metadata=rule(minimum=0))
    numa_node: int | None = field(default=None, metadata=rule(minimum=0))
    # What the PCIe path to each GPU of `NodeTopology.gpus` crosses; "" if unknown.
    levels: tuple[str, ...] = field(default=(), metadata=rule(max_length=MAX_GPUS))
    # The GPUs that have no nearer card.
    rail_of: tuple[int, ...] = field(default=(), metadata=rule(max_length=MAX_GPUS))
    # Of an RDMA device, the port that the other values are of.
    port: int = field(default=1, metadata=omitted_by_default(minimum=0, maximum=255))
    # Of that port, the address that RoCE v2 has on IPv4; None if it has none.
    gid_index: int | None = field(
        default=None, metadata=omitted_by_default(minimum=0, maximum=65_535)
    )


@dataclass(frozen=True, slots=True)
class NodeTopology:
    """Empty if the agent does not report it."""

    # Indexes of the GPUs that answered.
    gpus: tuple[int, ...] = field(default=(), metadata=rule(max_length=MAX_GPUS))
    pairs: tuple[GpuPair, ...] = field(default=(), metadata=rule(max_length=MAX_PAIRS))
    groups: tuple[GpuGroup, ...] = field(default=(), metadata=rule(max_length=4 * MAX_GPUS))
    cliques: tuple[FabricClique, ...] = field(default=(), metadata=rule(max_length=MAX_GPUS))
    nics: tuple[ReportedNic, ...] = field(default=(), metadata=rule(max_length=128))


def nvlink_domains(nodes: Mapping[str, NodeTopology]) -> dict[tuple[str, int], tuple[str, ...]]:
    """The NVLink domains that span nodes: the names of at least two nodes by (cluster, clique)."""
    domains: dict[tuple[str, int], set[str]] = {}
    for name, topology in nodes.items():
        for clique in topology.cliques:
            domains.setdefault((clique.cluster, clique.clique), set()).add(name)
    return {key: tuple(sorted(names)) for key, names in domains.items() if len(names) > 1}
