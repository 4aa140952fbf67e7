"""How the GPUs of a node are joined, as the node reports it: small enough for every document.

GPUs go by their index in the driver. Rates are MB/s (10^6 bytes) in one direction, what the wires
carry at best; nothing here was measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agents.contract.codec import rule

INDEX = rule(minimum=0, maximum=255)
MAX_GPUS = 64
MAX_PAIRS = MAX_GPUS * (MAX_GPUS - 1) // 2


class GroupKind(StrEnum):
    """What a group of GPUs shares."""

    NVSWITCH = "nvswitch"
    NVLINK = "nvlink"
    NUMA = "numa"


@dataclass(frozen=True, slots=True)
class GpuPair:
    """Two GPUs, the lower index first. `level` is that of the PCIe path, in nvidia-smi's words,
    empty where not told; `nvlinks` join them beside it, by NVSwitches where `switched`."""

    one: int = field(metadata=INDEX)
    other: int = field(metadata=INDEX)
    level: str = field(default="", metadata=rule(max_length=8))
    nvlinks: int = field(default=0, metadata=rule(minimum=0, maximum=255))
    switched: bool = False
    mb_per_second: int = field(default=0, metadata=rule(minimum=0))

    @property
    def label(self) -> str:
        """As `nvidia-smi topo -m` prints it; empty where not told."""
        return f"NV{self.nvlinks}" if self.nvlinks else self.level


@dataclass(frozen=True, slots=True)
class GpuGroup:
    """GPUs that share something. `mb_per_second` is that of the slowest pair in it; by NVLink of
    those pairs whose links the driver lets be used (MIG closes them). 0 where there is no such
    pair. `number` is the NUMA node's, else 0."""

    kind: GroupKind
    gpus: tuple[int, ...] = field(default=(), metadata=rule(max_length=MAX_GPUS))
    mb_per_second: int = field(default=0, metadata=rule(minimum=0))
    number: int = field(default=0, metadata=rule(minimum=0))


@dataclass(frozen=True, slots=True)
class FabricClique:
    """GPUs of one NVLink fabric that goes beyond the node: `cluster` (UUID) and `clique` are equal
    on every node of it."""

    cluster: str = field(metadata=rule(max_length=64))
    clique: int = field(default=0, metadata=rule(minimum=0))
    gpus: tuple[int, ...] = field(default=(), metadata=rule(max_length=MAX_GPUS))


@dataclass(frozen=True, slots=True)
class ReportedNic:
    """A network card. `levels`: of the PCIe path to each GPU, in the order of `NodeTopology.gpus`,
    empty words where not told. `rail_of`: the GPUs for which it is the nearest."""

    name: str = field(metadata=rule(max_length=64))
    link_layer: str = field(default="", metadata=rule(max_length=32))
    rdma: bool = False
    up: bool = False
    mb_per_second: int = field(default=0, metadata=rule(minimum=0))
    numa_node: int | None = field(default=None, metadata=rule(minimum=0))
    levels: tuple[str, ...] = field(default=(), metadata=rule(max_length=MAX_GPUS))
    rail_of: tuple[int, ...] = field(default=(), metadata=rule(max_length=MAX_GPUS))


@dataclass(frozen=True, slots=True)
class NodeTopology:
    """Empty where the agent does not tell. `gpus` are the indexes of those that answered."""

    gpus: tuple[int, ...] = field(default=(), metadata=rule(max_length=MAX_GPUS))
    pairs: tuple[GpuPair, ...] = field(default=(), metadata=rule(max_length=MAX_PAIRS))
    groups: tuple[GpuGroup, ...] = field(default=(), metadata=rule(max_length=4 * MAX_GPUS))
    cliques: tuple[FabricClique, ...] = field(default=(), metadata=rule(max_length=MAX_GPUS))
    nics: tuple[ReportedNic, ...] = field(default=(), metadata=rule(max_length=128))


def nvlink_domains(nodes: Mapping[str, NodeTopology]) -> dict[tuple[str, int], tuple[str, ...]]:
    """The NVLink domains that span nodes: (cluster, clique) with the names of at least two nodes
    that are in it, in order."""
    found: dict[tuple[str, int], set[str]] = {}
    for name, topology in nodes.items():
        for clique in topology.cliques:
            found.setdefault((clique.cluster, clique.clique), set()).add(name)
    return {key: tuple(sorted(names)) for key, names in found.items() if len(names) > 1}
