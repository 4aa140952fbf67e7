"""Nodes and their GPUs: several boards, racks and pools, some of them out of service."""

from datetime import timedelta
from functools import cache
from itertools import combinations

from agents.contract.boards import Board, known_boards
from agents.contract.codec import encode
from agents.contract.documents import GpuMode, NodeFacts
from agents.contract.topology import (
    GpuGroup,
    GpuPair,
    GroupKind,
    NodeTopology,
    ReportedNic,
)
from portal.demo.scale.size import ClusterSize, SeededRandom
from portal.inventory.models import Gpu, Node
from scheduler.core.model.states import GpuHealth, NodeStatus

# Percent of the nodes with each board.
MIX = (
    ("H200-141GB", 35),
    ("H100-80GB", 25),
    ("A100-80GB", 15),
    ("B200-180GB", 10),
    ("L40S-48GB", 8),
    ("T4-16GB", 7),
)
POOLS = ("train", "train", "train", "serve", "course")
PER_NODE, RACK, POD = 8, 4, 32
NVLINK_MB = {"hopper": 450_000, "ampere": 300_000, "blackwell": 900_000}
FAULTS = ("XID 79: the GPU has fallen off the bus", "XID 48: double bit ECC error")
CORDONS = ("new driver on Friday", "a fan is replaced", "kept for acceptance tests")


def nodes_write(rng: SeededRandom, size: ClusterSize) -> list[Gpu]:
    """Write the nodes and return their unsaved GPUs. One node in 500 never reported: its eight GPUs
    are added to another node."""
    silent = size.nodes // 500
    nodes = [_node(rng, nth, size.nodes) for nth in range(size.nodes)]
    for node in nodes[:silent]:
        node.status, node.facts, node.topology = NodeStatus.ENROLLED, {}, {}
        node.last_seen_at = node.lease_until = None
    Node.objects.bulk_create(nodes, batch_size=200)
    Node.objects.update(created_at=rng.now - timedelta(days=400))
    gpus = []
    for nth, node in enumerate(nodes[silent:]):
        count = PER_NODE * (1 + (nth >= len(nodes) - 2 * silent))
        gpus += [_gpu(rng, node, _board(nth + silent, size.nodes), i) for i in range(count)]
    return gpus


def gpus_write(gpus: list[Gpu]) -> None:
    """Write the GPUs, once their modes and shares are set."""
    Gpu.objects.bulk_create(gpus, batch_size=1_000)


def _board(nth: int, of: int) -> Board:
    position, total = nth * 100 / of, 0
    for key, percent in MIX:
        total += percent
        if position < total:
            return known_boards()[key]
    return known_boards()[MIX[-1][0]]


def _node(rng: SeededRandom, nth: int, of: int) -> Node:
    board = _board(nth, of)
    linked = board.architecture in NVLINK_MB
    node = Node(
        id=rng.uuid(),
        name=f"gpu-{nth + 1:04}",
        status=NodeStatus.ONLINE,
        last_seen_at=rng.now,
        lease_until=rng.now + timedelta(seconds=60),
        labels=sorted({f"pool={POOLS[nth // 8 % 5]}", f"rack=r{nth // RACK + 1:03}"}),
        boot_id=str(rng.uuid()),
        fabric=f"pod-{nth // POD + 1:02}",
        facts=encode(_facts(linked)),
        topology=_topology(board.architecture),
        cpu_milli=192_000 if linked else 64_000,
        memory_mib=(2_048 if linked else 512) * 1_024,
        disk_mib=20 * 1_024 * 1_024,
        epoch=1,
    )
    if linked and rng.happens(40):
        node.labels = [*node.labels, "nvme"]
    if rng.happens(0.8):
        node.status = rng.random.choice((NodeStatus.UNREACHABLE, NodeStatus.LOST))
        node.last_seen_at = rng.recent_moment(48)
    elif rng.happens(1.2):
        node.schedulable, node.cordon_actor = False, "admin"
        node.cordon_reason = rng.random.choice(CORDONS)
    elif rng.happens(1):
        node.taints, node.taint_reason = ["dedicated=course"], "a course uses it this term"
    elif rng.happens(0.4):
        problem = "block: the driver's module is not loaded. Mend: modprobe nvidia"
        node.facts = node.facts | {"blocks": [problem], "problems": [problem]}
    return node


def _facts(linked: bool) -> NodeFacts:
    return NodeFacts(
        cpu_milli=192_000 if linked else 64_000,
        memory_mib=(2_048 if linked else 512) * 1_024,
        disk_free_mib=18 * 1_024 * 1_024,
        runtime_version="28.5.1",
        fabric="roce" if linked else "ethernet",
        driver_version="580.159",
        cuda_version="13.0",
        simulated=True,
        share_clients=48,
    )


@cache
def _topology(architecture: str) -> dict[str, object]:
    """Eight GPUs on NVSwitches with a network card each, or on PCIe with one card."""
    rate = NVLINK_MB.get(architecture, 0)
    gpus = tuple(range(PER_NODE))
    near, far = gpus[:4], gpus[4:]
    nics = tuple(
        ReportedNic(
            name=f"mlx5_{i}",
            link_layer="Ethernet",
            rdma=bool(rate),
            up=True,
            mb_per_second=50_000 if rate else 12_500,
            numa_node=i // 4,
            levels=tuple("PIX" if g == i else "NODE" if g // 4 == i // 4 else "SYS" for g in gpus),
            rail_of=(i,) if rate else gpus,
        )
        for i in (gpus if rate else (0,))
    )
    pairs = tuple(
        GpuPair(
            one=a,
            other=b,
            level="NODE" if a // 4 == b // 4 else "SYS",
            nvlinks=18 * bool(rate),
            switched=bool(rate),
            mb_per_second=rate,
        )
        for a, b in combinations(gpus, 2)
    )
    switched = (GpuGroup(GroupKind.NVSWITCH, gpus, rate),) if rate else ()
    numa = (GpuGroup(GroupKind.NUMA, near, 0, 0), GpuGroup(GroupKind.NUMA, far, 0, 1))
    topology: dict[str, object] = encode(NodeTopology(gpus, pairs, (*switched, *numa), (), nics))
    return topology


def _gpu(rng: SeededRandom, node: Node, board: Board, index: int) -> Gpu:
    gpu = Gpu(
        id=rng.uuid(),
        node=node,
        uuid=f"GPU-{rng.uuid()}",
        index=index,
        board=board.key,
        product_name=board.product_names[0],
        memory_mib=board.memory_mib,
        desired_mode=GpuMode.WHOLE,
        observed_mode=GpuMode.WHOLE,
        pci_bus_id=f"00000000:{index * 16 + 1:02X}:00.0",
        numa_node=index % PER_NODE // 4,
    )
    if rng.happens(0.5):
        gpu.health, gpu.health_reason = GpuHealth.FAULTED, rng.random.choice(FAULTS)
    elif rng.happens(0.2):
        gpu.pinned, gpu.pin_actor, gpu.pin_reason = True, "admin", "slices for a course"
    return gpu
