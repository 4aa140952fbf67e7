"""The topology report for the portal, and when it is read again."""

import logging
import time
from collections.abc import Callable, Hashable

from agents.contract.node_limits import MAX_GPUS
from agents.contract.topology import (
    FabricClique,
    GpuGroup,
    GpuPair,
    GroupKind,
    NodeTopology,
    ReportedNic,
)
from agents.nvml.errors import NvmlFailure
from agents.topology.nics import Network
from agents.topology.pairs import GpuTopology, Pair

log = logging.getLogger(__name__)

# Changes of links and NICs are noticed after at most this time.
AGE_SECONDS = 300.0


class WiringCache:
    """Reading every pair takes hundreds of driver calls, so the topology is read again only when
    the GPUs or their modes change, or when it is old."""

    def __init__(
        self, read: Callable[[], NodeTopology], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._clock = clock
        self._kept: tuple[Hashable, float, NodeTopology] | None = None

    def current(self, gpus: Hashable) -> NodeTopology:
        """`gpus` identifies the GPUs and their modes. If reading fails, the last topology is kept;
        the node works without one."""
        now, kept = self._clock(), self._kept
        if kept is None or kept[0] != gpus or now - kept[1] >= AGE_SECONDS:
            try:
                kept = self._kept = gpus, now, self._read()
            except (NvmlFailure, OSError) as failure:
                log.warning("topology_unread", extra={"why": str(failure)})
        return kept[2] if kept else NodeTopology()


def topology_report(topology: GpuTopology, network: Network) -> NodeTopology:
    """The topology as a document of the contract."""
    gpus = tuple(gpu.index for gpu in topology.gpus)[:MAX_GPUS]
    rails = network.rails()
    return NodeTopology(
        gpus=gpus,
        pairs=tuple(_pair(p) for p in topology.pairs if {p.first, p.second} <= set(gpus)),
        groups=groups(topology),
        cliques=_cliques(topology),
        nics=tuple(
            ReportedNic(
                name=nic.name[:64],
                link_layer=nic.link_layer[:32],
                rdma=nic.rdma,
                up=nic.up,
                mb_per_second=nic.mb_per_second,
                numa_node=nic.place.numa_node,
                levels=tuple(str(network.level(gpu, nic) or "") for gpu in gpus),
                rail_of=tuple(gpu for gpu in gpus if rails.get(gpu) == nic),
                port=nic.port,
                gid_index=nic.gid_index,
            )
            for nic in network.nics[:128]
        ),
    )


def groups(topology: GpuTopology) -> tuple[GpuGroup, ...]:
    """NVSwitch domains, then GPUs that links join directly, then NUMA nodes."""
    bridged = [{p.first, p.second} for p in topology.pairs if p.nvlinks and not p.switched]
    near: dict[int, list[int]] = {}
    for gpu in topology.gpus:
        if gpu.numa_nodes:
            near.setdefault(gpu.numa_nodes[0], []).append(gpu.index)
    return (
        *(_group(topology, GroupKind.NVSWITCH, domain) for domain in topology.domains),
        *(_group(topology, GroupKind.NVLINK, joined) for joined in _connected(bridged)),
        *(
            _group(topology, GroupKind.NUMA, tuple(members), number)
            for number, members in sorted(near.items())
        ),
    )


def _group(
    topology: GpuTopology, kind: GroupKind, gpus: tuple[int, ...], number: int = 0
) -> GpuGroup:
    inside = [p for p in topology.pairs if p.first in gpus and p.second in gpus]
    if kind is not GroupKind.NUMA:  # of a chain only neighbours are joined; MIG closes links
        inside = [p for p in inside if p.nvlinks and p.is_open]
    return GpuGroup(kind, gpus, min((p.mb_per_second for p in inside), default=0), number)


def _connected(pairs: list[set[int]]) -> list[tuple[int, ...]]:
    """Sets of GPUs between which some chain of links leads."""
    found: list[set[int]] = []
    for pair in pairs:
        members = set(pair)
        for other in [group for group in found if group & members]:
            found.remove(other)
            members |= other
        found.append(members)
    return sorted(tuple(sorted(members)) for members in found)


def _pair(pair: Pair) -> GpuPair:
    return GpuPair(
        one=pair.first,
        other=pair.second,
        level=str(pair.level or ""),
        nvlinks=pair.nvlinks,
        switched=pair.switched,
        mb_per_second=pair.mb_per_second,
    )


def _cliques(topology: GpuTopology) -> tuple[FabricClique, ...]:
    members: dict[tuple[str, int], list[int]] = {}
    for gpu in topology.gpus:
        if gpu.fabric and gpu.fabric.domain:
            members.setdefault((gpu.fabric.cluster, gpu.fabric.clique), []).append(gpu.index)
    return tuple(
        FabricClique(cluster, clique, tuple(gpus))
        for (cluster, clique), gpus in sorted(members.items())
    )
