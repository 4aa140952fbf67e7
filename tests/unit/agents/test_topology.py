"""How GPUs are joined, from what a driver says: levels, links, switches, rates, and the table."""

from dataclasses import replace

import pytest

from agents.facts.wiring import (
    PCIE_LANE,
    GpuPath,
    GpuWiring,
    LinkPeer,
    NvLink,
    PathLevel,
    PeerAccess,
    PeerStatus,
)
from agents.topology.pairs import gpu_topology
from agents.topology.table import format_ranges, topology_table

OPEN = PeerAccess(PeerStatus.OK, PeerStatus.OK, PeerStatus.OK, PeerStatus.OK)
CLOSED = replace(OPEN, nvlink=PeerStatus.NOT_SUPPORTED)


def bus(index: int) -> str:
    return f"00000000:{0x10 + index:02X}:00.0"


def a_gpu(index: int, *links: NvLink, generation: int | None = 5, width: int | None = 16):
    return GpuWiring(
        index, f"GPU-{index}", bus(index), generation, width, cpus=(index,), links=links
    )


def to_switches(*switches: str, generation: str = "4.0") -> list[NvLink]:
    return [NvLink(n, generation, LinkPeer.SWITCH, s) for n, s in enumerate(switches)]


def to_gpu(index: int, count: int, generation: str = "3.0") -> list[NvLink]:
    return [NvLink(n, generation, LinkPeer.GPU, bus(index)) for n in range(count)]


def joined(*gpus: GpuWiring, level: PathLevel | None = PathLevel.SYSTEM, access: PeerAccess = OPEN):
    paths = {(a.index, b.index): GpuPath(level, access) for a in gpus for b in gpus}
    return gpu_topology(gpus, paths)


@pytest.mark.parametrize(
    ("generation", "width", "rate"),
    [(3, 16, 15_753), (4, 16, 31_507), (5, 16, 63_015), (5, 8, 31_507), (1, 16, 4_000)],
)
def test_a_slot_carries_what_its_generation_and_lanes_give_in_one_direction(
    generation, width, rate
):
    assert a_gpu(0, generation=generation, width=width).pcie_mb_per_second == rate


def test_every_pcie_generation_is_faster_than_the_one_before():
    rates = [a_gpu(0, generation=g).pcie_mb_per_second for g in sorted(PCIE_LANE)]
    assert rates == sorted(set(rates))


@pytest.mark.parametrize(("generation", "width"), [(None, 16), (5, None), (99, 16), (5, 0)])
def test_a_slot_of_which_the_driver_says_too_little_has_no_rate(generation, width):
    assert a_gpu(0, generation=generation, width=width).pcie_mb_per_second == 0


def test_without_links_the_slower_slot_is_the_rate():
    pair = joined(a_gpu(0), a_gpu(1, generation=4), level=PathLevel.SINGLE_SWITCH).pair(1, 0)
    assert (pair.label, pair.nvlinks, pair.mb_per_second) == ("PIX", 0, 31_507)


def test_links_of_a_bridge_add_up_and_are_not_switched():
    pair = joined(a_gpu(0, *to_gpu(1, 4)), a_gpu(1, *to_gpu(0, 4))).pair(0, 1)
    assert (pair.label, pair.level, pair.switched) == ("NV4", PathLevel.SYSTEM, False)
    assert pair.mb_per_second == 4 * 25_000


def test_links_to_a_third_gpu_do_not_join_a_pair():
    topology = joined(a_gpu(0, *to_gpu(2, 4)), a_gpu(1), a_gpu(2, *to_gpu(0, 4)))
    assert [p.label for p in topology.pairs] == ["SYS", "NV4", "SYS"]


@pytest.mark.parametrize(
    ("generation", "count", "rate"),
    [("3.0", 12, 300_000), ("4.0", 18, 450_000), ("5.0", 18, 900_000)],
)
def test_gpus_on_common_switches_are_joined_by_all_their_links(generation, count, rate):
    links = to_switches(*["S"] * count, generation=generation)
    topology = joined(a_gpu(0, *links), a_gpu(1, *links))
    (pair,) = topology.pairs
    assert (pair.nvlinks, pair.switched, pair.mb_per_second) == (count, True, rate)
    assert topology.domains == ((0, 1),)


def test_the_gpu_with_fewer_live_links_limits_the_pair():
    topology = joined(a_gpu(0, *to_switches("S", "S", "S")), a_gpu(1, *to_switches("S")))
    assert (topology.pairs[0].nvlinks, topology.pairs[0].mb_per_second) == (1, 25_000)


def test_switches_that_only_one_of_two_gpus_reaches_join_nothing():
    topology = joined(a_gpu(0, *to_switches("S")), a_gpu(1, *to_switches("T")))
    assert topology.pairs[0].label == "SYS"
    assert topology.domains == ()


def test_two_boards_of_switches_are_two_domains_and_a_shared_switch_makes_them_one():
    apart = [a_gpu(i, *to_switches("ST"[i // 2])) for i in range(4)]
    assert joined(*apart).domains == ((0, 1), (2, 3))
    assert joined(*apart, a_gpu(4, *to_switches("S", "T"))).domains == ((0, 1, 2, 3, 4),)


def test_a_domain_is_one_also_where_its_outer_gpus_share_no_switch():
    chain = [to_switches("S", "T"), to_switches("T", "U"), to_switches("S"), to_switches("U")]
    assert joined(*(a_gpu(i, *links) for i, links in enumerate(chain))).domains == ((0, 1, 2, 3),)


def test_links_that_the_driver_does_not_let_be_used_are_told_but_carry_nothing():
    links = to_switches("S", "S")
    (pair,) = joined(a_gpu(0, *links), a_gpu(1, *links), access=CLOSED).pairs
    assert (pair.label, pair.mb_per_second) == ("NV2", 63_015)


def test_a_link_of_a_generation_that_nobody_knows_counts_as_the_slowest():
    (pair,) = joined(a_gpu(0, *to_gpu(1, 1, "")), a_gpu(1, *to_gpu(0, 1, ""))).pairs
    assert pair.mb_per_second == 20_000


def test_a_pair_of_which_the_driver_says_nothing_is_still_told():
    (pair,) = gpu_topology((a_gpu(0), a_gpu(1)), {}).pairs
    assert (pair.label, pair.level, pair.access) == ("N/A", None, PeerAccess())


def test_the_matrix_is_square_symmetric_and_empty_on_its_diagonal_also_beside_a_lost_gpu():
    topology = joined(a_gpu(0, *to_gpu(3, 4)), a_gpu(2), a_gpu(3, *to_gpu(0, 4)))
    slow, fast = 63_015, 100_000
    assert topology.matrix() == ((0, slow, fast), (slow, 0, slow), (fast, slow, 0))


def test_a_node_with_one_gpu_or_none_has_no_pairs():
    assert joined(a_gpu(0)).matrix() == ((0,),)
    assert (gpu_topology((), {}).pairs, gpu_topology((), {}).matrix()) == ((), ())


def test_the_table_has_a_row_and_a_column_for_each_gpu_then_what_is_near():
    gpus = (a_gpu(0), replace(a_gpu(2), cpus=(0, 1, 2, 8), numa_nodes=(1,), own_numa_node=4))
    lines = topology_table(joined(*gpus, level=PathLevel.HOST_BRIDGE)).splitlines()
    assert [line.split("\t") for line in lines[:3]] == [
        ["", "GPU0", "GPU2", "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"],
        ["GPU0", "X", "PHB", "0", "N/A", "N/A"],
        ["GPU2", "PHB", "X", "0-2,8", "1", "4"],
    ]
    assert all(word in "\n".join(lines[3:]) for word in [*PathLevel, "NV#"] if word != "INT")


@pytest.mark.parametrize(
    ("numbers", "written"),
    [((), "N/A"), ((5,), "5"), ((0, 1), "0-1"), ((3, 1, 2, 7, 9, 10), "1-3,7,9-10")],
)
def test_sets_of_cpus_are_written_as_linux_does(numbers, written):
    assert format_ranges(numbers) == written
