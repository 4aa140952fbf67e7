"""The network cards of a node, their distance to the GPUs, and the GPUs' rails. Pure.

A rail is the NIC that carries a GPU's traffic to the same GPU of other nodes, chosen so that no two
GPUs share a card while another card is idle.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agents.facts.wiring import PathLevel
from agents.topology.pci import PciPlace, level_between

NEARNESS = {level: number for number, level in enumerate(PathLevel)}


@dataclass(frozen=True, slots=True)
class Nic:
    """A network card."""

    index: int
    # Of its RDMA device, such as mlx5_0, else of its interface.
    name: str
    place: PciPlace
    interfaces: tuple[str, ...] = ()
    rdma: bool = False
    # InfiniBand or Ethernet; empty if unknown.
    link_layer: str = ""
    # In one direction; 0 if the link is down or its rate unknown.
    mbit_per_second: int = 0
    up: bool = False
    # Of an RDMA device, as in ReportedNic.
    port: int = 1
    gid_index: int | None = None

    @property
    def mb_per_second(self) -> int:
        """10^6 bytes a second, one direction."""
        return self.mbit_per_second // 8


@dataclass(frozen=True, slots=True)
class Network:
    """The NICs of a node and the PCI places of its GPUs."""

    nics: tuple[Nic, ...] = ()
    # By GPU index, without GPUs that sysfs does not have.
    gpus: Mapping[int, PciPlace] = field(default_factory=dict)

    def level(self, gpu: int, nic: Nic) -> PathLevel | None:
        """None if sysfs does not have the GPU."""
        place = self.gpus.get(gpu)
        return level_between(place, nic.place) if place else None

    def rails(self) -> dict[int, Nic]:
        """The nearest NIC of each GPU among those that are up, preferably an RDMA device. Equally
        near NICs are distributed evenly, the lower number first."""
        up = [nic for nic in self.nics if nic.up]
        offered = [nic for nic in up if nic.rdma] or up
        taken: Counter[int] = Counter()
        found: dict[int, Nic] = {}
        for gpu in sorted(self.gpus) if offered else ():
            nic = min(offered, key=lambda nic: (self._far(gpu, nic), taken[nic.index], nic.index))
            taken[nic.index] += 1
            found[gpu] = nic
        return found

    def _far(self, gpu: int, nic: Nic) -> int:
        return NEARNESS[level_between(self.gpus[gpu], nic.place)]


def number_nics(nics: Sequence[Nic]) -> tuple[Nic, ...]:
    """NIC0, NIC1 and so on: RDMA devices first, each kind in the order of its names' numbers."""
    ordered = sorted(nics, key=lambda nic: (not nic.rdma, _natural(nic.name)))
    return tuple(replace(nic, index=index) for index, nic in enumerate(ordered))


def _natural(name: str) -> tuple[str, int, str]:
    """mlx5_2 before mlx5_10."""
    head = name.rstrip("0123456789")
    number = name[len(head) :]
    return head, int(number or 0), name
