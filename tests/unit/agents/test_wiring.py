"""What a node reports of its topology, and when it asks the driver again."""

from agents.contract.topology import FabricClique, GroupKind, NodeTopology, nvlink_domains
from agents.facts.wiring import (
    FabricState,
    GpuPath,
    GpuWiring,
    LinkPeer,
    NvLink,
    NvlinkFabric,
    PathLevel,
    PeerAccess,
    PeerStatus,
)
from agents.nvml.errors import NvmlFailure
from agents.topology.nics import Network
from agents.topology.pairs import gpu_topology
from agents.topology.wiring import AGE_SECONDS, WiringCache, topology_report

CLUSTER = "11111111-2222-3333-4444-555555555555"


def bus(index: int) -> str:
    return f"00000000:{0x10 + index:02X}:00.0"


def a_gpu(index: int, *peers: int, numa: int = 0, fabric: NvlinkFabric | None = None) -> GpuWiring:
    links = tuple(NvLink(n, "3.0", LinkPeer.GPU, bus(peer)) for n, peer in enumerate(peers))
    return GpuWiring(
        index, f"GPU-{index}", bus(index), 4, 16, numa_nodes=(numa,), links=links, fabric=fabric
    )


def topology_of(*gpus: GpuWiring) -> NodeTopology:
    paths = {
        (a.index, b.index): GpuPath(PathLevel.SYSTEM, PeerAccess()) for a in gpus for b in gpus
    }
    return topology_report(gpu_topology(gpus, paths), Network())


def named(topology: NodeTopology, kind: GroupKind) -> list[tuple[tuple[int, ...], int, int]]:
    return [(g.gpus, g.mb_per_second, g.number) for g in topology.groups if g.kind is kind]


def test_bridged_gpus_are_groups_with_the_rate_of_their_slowest_links():
    topology = topology_of(a_gpu(0, 1, 1), a_gpu(1, 0, 0), a_gpu(2, 3), a_gpu(3, 2), a_gpu(4))
    assert named(topology, GroupKind.NVLINK) == [((0, 1), 50_000, 0), ((2, 3), 25_000, 0)]


def test_a_chain_of_links_is_one_group_by_its_links_and_not_its_pcie():
    topology = topology_of(a_gpu(0, 1), a_gpu(1, 0, 2), a_gpu(2, 1))
    assert named(topology, GroupKind.NVLINK) == [((0, 1, 2), 25_000, 0)]


def test_gpus_of_a_numa_node_are_a_group_even_one_alone():
    topology = topology_of(a_gpu(0), a_gpu(1), a_gpu(2, numa=1))
    assert named(topology, GroupKind.NUMA) == [((0, 1), 31_507, 0), ((2,), 0, 1)]


def test_links_that_the_driver_closes_have_no_rate_in_their_group():
    gpus = (a_gpu(0, 1), a_gpu(1, 0))
    closed = GpuPath(PathLevel.SYSTEM, PeerAccess(nvlink=PeerStatus.NOT_SUPPORTED))
    topology = topology_report(gpu_topology(gpus, {(0, 1): closed}), Network())
    assert named(topology, GroupKind.NVLINK) == [((0, 1), 0, 0)]
    assert named(topology, GroupKind.NUMA) == [((0, 1), 31_507, 0)]


def test_gpus_join_a_clique_only_by_a_completed_fabric_with_a_cluster():
    topology = topology_of(
        a_gpu(0, fabric=NvlinkFabric(FabricState.COMPLETED, CLUSTER, 7)),
        a_gpu(1, fabric=NvlinkFabric(FabricState.IN_PROGRESS, CLUSTER, 7)),
        a_gpu(2, fabric=NvlinkFabric(FabricState.COMPLETED)),
        a_gpu(3, fabric=NvlinkFabric(FabricState.FAILED, CLUSTER, 7)),
        a_gpu(4),
        a_gpu(5, fabric=NvlinkFabric(FabricState.COMPLETED, CLUSTER, 7)),
    )
    assert topology.cliques == (FabricClique(CLUSTER, 7, (0, 5)),)


def test_equal_cluster_and_clique_on_several_nodes_are_one_nvlink_domain():
    here = NodeTopology(cliques=(FabricClique("c", 1, (0,)), FabricClique("c", 2, (1,))))
    there = NodeTopology(cliques=(FabricClique("c", 1, (0,)), FabricClique("d", 2, (1,))))
    nodes = {"b": here, "a": there, "x": NodeTopology()}
    assert nvlink_domains(nodes) == {("c", 1): ("a", "b")}


class Reads:
    """A driver that counts how often it was asked, and may fail."""

    def __init__(self) -> None:
        self.count = 0
        self.now = 0.0
        self.failure: Exception | None = None
        self.wiring = WiringCache(self.read, lambda: self.now)

    def read(self) -> NodeTopology:
        self.count += 1
        if self.failure:
            raise self.failure
        return NodeTopology(gpus=(self.count,))


def test_the_driver_is_asked_again_for_other_gpus_and_after_a_while():
    reads = Reads()
    assert [reads.wiring.current(key).gpus for key in ("a", "a", "b", "b")] == [
        (1,),
        (1,),
        (2,),
        (2,),
    ]
    reads.now = AGE_SECONDS
    assert reads.wiring.current("b").gpus == (3,)


def test_a_driver_in_trouble_leaves_what_was_known_and_is_asked_again():
    reads = Reads()
    reads.failure = OSError("no sysfs")
    assert reads.wiring.current("a") == NodeTopology()
    reads.failure = None
    assert reads.wiring.current("a").gpus == (2,)
    reads.failure = NvmlFailure("driver_failed", "lost")
    assert reads.wiring.current("b").gpus == (2,)
    assert reads.count == 3
