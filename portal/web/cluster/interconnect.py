"""How the GPUs of a node are connected, as sentences and as a table, from its agent's report."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents.contract.codec import decode
from agents.contract.errors import ContractError
from agents.contract.topology import (
    GpuGroup,
    GroupKind,
    NodeTopology,
    ReportedNic,
    nvlink_domains,
)
from portal.inventory.models import Node

PathRow = tuple[str, tuple[str, ...], str]


@dataclass(frozen=True, slots=True)
class Interconnect:
    # A sentence for each group of GPUs.
    lines: tuple[str, ...]
    columns: tuple[str, ...]
    # A name, its path to each GPU in nvidia-smi's terms, and its network.
    rows: tuple[PathRow, ...]


def interconnects(topologies: Mapping[str, NodeTopology]) -> dict[str, Interconnect]:
    """By node name, without the nodes that have reported no topology."""
    domains = nvlink_domains({**topologies, **_elsewhere(topologies)})
    return {
        name: Interconnect(
            lines=(*map(_line, topology.groups), *_spanning(name, topology, domains)),
            columns=tuple(_gpu(index) for index in topology.gpus),
            rows=(*_gpu_rows(topology), *_nic_rows(topology)),
        )
        for name, topology in topologies.items()
        if topology.gpus
    }


def _elsewhere(topologies: Mapping[str, NodeTopology]) -> dict[str, NodeTopology]:
    """Other nodes that may share an NVLink domain with these. No query if these are in none."""
    clusters = {clique.cluster for topology in topologies.values() for clique in topology.cliques}
    if not clusters:
        return {}
    rows = Node.objects.exclude(name__in=topologies).exclude(topology__cliques=None)
    rows = rows.exclude(topology__cliques=[]).only("name", "topology")
    return {node.name: topology_of(node) for node in rows}


def topology_of(node: Node) -> NodeTopology:
    """The node's topology; empty if it has none, or one of another version that its agent will
    report again."""
    try:
        return decode(NodeTopology, node.topology)
    except ContractError:
        return NodeTopology()


def index_ranges(numbers: Iterable[int]) -> str:
    """ "0-3, 6" for 0, 1, 2, 3, 6."""
    ordered = sorted(numbers)
    breaks = [(a, b) for a, b in pairwise(ordered) if b != a + 1]
    starts = [*ordered[:1], *(b for _, b in breaks)]
    ends = [*(a for a, _ in breaks), *ordered[-1:]]
    ranges = (str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))
    return ", ".join(ranges)


def _line(group: GpuGroup) -> str:
    words = {
        "gpus": index_ranges(group.gpus),
        "rate": f"{group.mb_per_second / 1000:.3g}",
        "number": group.number,
    }
    if group.kind is GroupKind.NUMA:
        singular, plural = "NUMA %(number)s: GPU %(gpus)s", "NUMA %(number)s: GPUs %(gpus)s"
        return ngettext(singular, plural, len(group.gpus)) % words
    if not group.mb_per_second:
        return _("%(gpus)s are connected by NVLink, but the links are down") % {
            "gpus": _("GPUs %(gpus)s") % words
        }
    if group.kind is GroupKind.NVSWITCH:
        return _("NVSwitch: GPUs %(gpus)s, %(rate)s GB/s per direction") % words
    return _("NVLink: GPUs %(gpus)s, %(rate)s GB/s per direction") % words


def _spanning(
    name: str, topology: NodeTopology, domains: dict[tuple[str, int], tuple[str, ...]]
) -> tuple[str, ...]:
    """A sentence for each NVLink domain that this node shares with others."""
    return tuple(
        _("Shares an NVLink domain with %(nodes)s: GPUs %(gpus)s")
        % {
            "nodes": ", ".join(n for n in domains[clique.cluster, clique.clique] if n != name),
            "gpus": index_ranges(clique.gpus),
        }
        for clique in topology.cliques
        if (clique.cluster, clique.clique) in domains
    )


def _gpu(index: int) -> str:
    return f"GPU {index}"


def _gpu_rows(topology: NodeTopology) -> Iterable[PathRow]:
    words = {(p.one, p.other): p.label for p in topology.pairs}
    rails = {gpu: nic.name for nic in topology.nics for gpu in nic.rail_of}
    for one in topology.gpus:
        cells = tuple(
            words.get((min(one, other), max(one, other)), "") if one != other else "X"
            for other in topology.gpus
        )
        yield _gpu(one), cells, rails.get(one, "")


def _nic_rows(topology: NodeTopology) -> Iterable[PathRow]:
    for nic in topology.nics:
        yield nic.name, nic.levels, _network(nic)


def _network(nic: ReportedNic) -> str:
    if not nic.up:
        return ", ".join(filter(None, (nic.link_layer, _("link down"))))
    rate = f"{nic.mb_per_second * 8 / 1000:g} Gbit/s" if nic.mb_per_second else ""
    return ", ".join(filter(None, (nic.link_layer, rate)))
