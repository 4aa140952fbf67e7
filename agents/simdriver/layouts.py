"""The wiring of a simulated node (PCIe, NVLinks, CPUs), chosen by name when it is created.

The names count what is in the box. "2-2-4-6-8-8" is 2 CPUs, 2 storage NICs, 4 PCIe switches,
6 NVSwitches, 8 GPUs, 8 NICs of the GPUs; "2-2-4" is 2 CPUs, 2 NICs, 4 GPUs. Wiring: NVIDIA's
DGX A100 and DGX H100 user guides (links per GPU and switch), and `nvidia-smi topo -m` of such
machines in public threads, among them NVIDIA/nccl issue 1505 and vllm-project/vllm issue 6746.
"""

from dataclasses import dataclass
from enum import IntEnum
from itertools import repeat


class Level(IntEnum):
    """nvmlGpuTopologyLevel_t: how far apart two GPUs are on PCIe."""

    INTERNAL = 0
    SINGLE = 10
    MULTIPLE = 20
    HOSTBRIDGE = 30
    NODE = 40
    SYSTEM = 50


@dataclass(frozen=True, slots=True)
class Place:
    """The PCIe place of a device. Devices with equal places share one PCIe switch."""

    numa: int
    bridge: int
    tree: int
    switch: int


@dataclass(frozen=True, slots=True)
class NicPlace:
    """A network port: where its card hangs, and which PCI function of the card it is."""

    place: Place
    interface: str
    function: int = 0
    link_layer: str = "InfiniBand"
    gbit_per_second: int = 400


@dataclass(frozen=True, slots=True)
class Layout:
    """A kind of node. `board` and `gpus` are None if any will do.

    `links` is how many NVLinks each GPU has. `switches` says how many of them go to each NVSwitch;
    where it is empty, GPUs 2n and 2n+1 are joined by a bridge that takes all links. `cpus` are the
    CPU numbers of each NUMA node.
    """

    name: str
    description: str
    board: str | None
    places: tuple[Place, ...]
    cpus: tuple[tuple[int, ...], ...]
    links: int = 0
    switches: tuple[int, ...] = ()
    nics: tuple[NicPlace, ...] = ()

    @property
    def gpus(self) -> int | None:
        return len(self.places) or None

    def place(self, index: int, numa: int) -> Place:
        """Of a GPU; in the flat layout each has a host bridge of its own."""
        return self.places[index] if self.places else Place(numa, index, 0, 0)

    def remote_switch(self, link: int) -> int | None:
        """The NVSwitch at the other end of a link, or None where a GPU is there."""
        ends = [n for n, count in enumerate(self.switches) for _ in repeat(None, count)]
        return ends[link] if ends else None


def path_level(first: Place, second: Place) -> Level:
    """Of two different GPUs: by what the shortest path between them has to cross."""
    if first.numa != second.numa:
        return Level.SYSTEM
    if first.bridge != second.bridge:
        return Level.NODE
    if first.tree != second.tree:
        return Level.HOSTBRIDGE
    return Level.SINGLE if first.switch == second.switch else Level.MULTIPLE


def switch_bus_id(switch: int) -> str:
    """No GPU of a simulated node has such a bus."""
    return f"00000000:{0xC1 + switch:02X}:00.0"


def _threads(sockets: int, cores: int, threads: int) -> tuple[tuple[int, ...], ...]:
    """CPU numbers by socket, as Linux numbers them: the second threads after all cores."""
    return tuple(
        tuple(
            thread * sockets * cores + socket * cores + core
            for thread in range(threads)
            for core in range(cores)
        )
        for socket in range(sockets)
    )


def _storage(bridge: int, gbit_per_second: int) -> tuple[NicPlace, ...]:
    """A card with two Ethernet ports at each CPU, behind a host bridge of its own."""
    return tuple(
        NicPlace(
            Place(numa, bridge, 0, 0), f"eth{2 * numa + port}", port, "Ethernet", gbit_per_second
        )
        for numa in range(2)
        for port in range(2)
    )


def _hopper(name: str, board: str) -> Layout:
    return Layout(
        name=name,
        description="8 GPUs, each behind a PCIe switch of its own, all on 4 NVSwitches, 2 CPUs",
        board=board,
        places=tuple(Place(numa=i // 4, bridge=i, tree=0, switch=0) for i in range(8)),
        cpus=_threads(sockets=2, cores=56, threads=2),
        links=18,
        switches=(5, 4, 4, 5),
        nics=(
            *(NicPlace(Place(i // 4, i, 0, switch=1), f"ib{i}") for i in range(8)),
            *_storage(bridge=8, gbit_per_second=200),
        ),
    )


FLAT = Layout(
    name="flat",
    description="any board and number of GPUs, 2 CPUs, no NVLink",
    board=None,
    places=(),
    cpus=_threads(sockets=2, cores=32, threads=1),
)
LAYOUTS = {
    layout.name: layout
    for layout in (
        FLAT,
        Layout(
            name="a100-nvswitch-8",
            description="2-2-4-6-8-8: 8 GPUs in pairs behind 4 PCIe switches, 6 NVSwitches, 2 CPUs",
            board="A100-80GB",
            places=tuple(Place(numa=i // 4, bridge=i // 2, tree=0, switch=i % 2) for i in range(8)),
            cpus=_threads(sockets=2, cores=64, threads=2),
            links=12,
            switches=(2,) * 6,
            nics=(
                *(
                    NicPlace(
                        Place(i // 4, i // 2, 0, switch=2 + i % 2), f"ib{i}", gbit_per_second=200
                    )
                    for i in range(8)
                ),
                *_storage(bridge=4, gbit_per_second=100),
            ),
        ),
        _hopper("h100-nvswitch-8", "H100-80GB"),
        _hopper("h200-nvswitch-8", "H200-141GB"),
        Layout(
            name="l40s-pcie-4",
            description="2-2-4: 2 GPUs and a NIC behind a PCIe switch at each of 2 CPUs",
            board="L40S-48GB",
            places=tuple(Place(numa=i // 2, bridge=0, tree=0, switch=0) for i in range(4)),
            cpus=_threads(sockets=2, cores=32, threads=2),
            nics=tuple(
                NicPlace(Place(numa, 0, 0, 0), f"eth{numa}", 0, "Ethernet", 200)
                for numa in range(2)
            ),
        ),
        Layout(
            name="a30-bridge-2",
            description="2 GPUs at one CPU, joined by an NVLink bridge",
            board="A30-24GB",
            places=(Place(numa=0, bridge=0, tree=0, switch=0), Place(0, 0, tree=1, switch=0)),
            cpus=_threads(sockets=1, cores=32, threads=2),
            links=4,
            nics=(NicPlace(Place(0, 0, tree=2, switch=0), "eth0", 0, "Ethernet", 25),),
        ),
    )
}
