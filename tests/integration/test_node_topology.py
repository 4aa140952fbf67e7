"""What a node tells of its topology: kept in its row, shown on the cluster page in both tongues."""

import re
from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import translation

from agents.contract.codec import encode
from agents.contract.topology import (
    FabricClique,
    GpuGroup,
    GpuPair,
    GroupKind,
    NodeTopology,
    ReportedNic,
)
from portal.agentapi.node_report import node_report
from portal.inventory.models import Node
from portal.web.cluster.interconnect import index_ranges, interconnects, topology_of
from tests.support.rows import a_node, a_user

pytestmark = pytest.mark.django_db

BRIDGED = NodeTopology(
    gpus=(0, 1, 2),
    pairs=(
        GpuPair(0, 1, "PHB", 4, False, 100_000),
        GpuPair(0, 2, "SYS", 0, False, 31_507),
        GpuPair(1, 2, "SYS", 0, False, 31_507),
    ),
    groups=(
        GpuGroup(GroupKind.NVLINK, (0, 1), 100_000),
        GpuGroup(GroupKind.NUMA, (0, 1), 100_000, 0),
        GpuGroup(GroupKind.NUMA, (2,), 0, 1),
    ),
    nics=(
        ReportedNic("mlx5_0", "InfiniBand", True, True, 50_000, 0, ("PIX", "PXB", "SYS"), (0, 1)),
        ReportedNic("eth0", "Ethernet", False, False, 0, None, ("SYS", "SYS", "")),
    ),
)
SWITCHED = NodeTopology(
    gpus=tuple(range(8)),
    groups=(GpuGroup(GroupKind.NVSWITCH, tuple(range(8)), 450_000),),
    cliques=(FabricClique("c-1", 3, tuple(range(8))),),
)


def node_with_topology(name: str, topology: NodeTopology) -> Node:
    node = a_node(name)
    node_report(node.row.pk, replace(node.observed(), topology=topology))
    return Node.objects.get(pk=node.row.pk)


@pytest.fixture
def page(client):
    client.force_login(a_user("olga"))

    def get(language: str = "en", path: str = "/cluster/") -> str:
        answer = client.get(path, headers={"accept-language": language})
        assert answer.status_code == 200
        return answer.content.decode()

    return get


def topologies() -> dict[str, NodeTopology]:
    return {node.name: topology_of(node) for node in Node.objects.all()}


def test_the_row_holds_what_the_node_told_last():
    node = node_with_topology("n1", SWITCHED)
    assert topology_of(node) == SWITCHED
    report = a_node("n2")
    node_report(report.row.pk, replace(report.observed(), topology=SWITCHED))
    node_report(report.row.pk, report.observed())
    assert topology_of(Node.objects.get(pk=report.row.pk)) == NodeTopology()


@pytest.mark.parametrize("kept", [{}, {"gpus": "all"}, {"rings": []}, None])
def test_a_row_of_another_version_shows_nothing_instead_of_failing(page, kept):
    node = node_with_topology("n1", BRIDGED)
    Node.objects.filter(pk=node.pk).update(topology=kept or {})
    assert interconnects(topologies()) == {}
    assert "Paths between" not in page()


def test_the_page_names_the_groups_of_gpus(page):
    node_with_topology("n1", BRIDGED)
    node_with_topology("n2", SWITCHED)
    text = page()
    for line in (
        "NVLink: GPUs 0-1, 100 GB/s per direction",
        "NUMA 0: GPUs 0-1",
        "NUMA 1: GPU 2",
        "NVSwitch: GPUs 0-7, 450 GB/s per direction",
    ):
        assert f"<span>{line}</span>" in text


def test_the_page_says_it_in_chinese(page):
    node_with_topology("n1", BRIDGED)
    text = page("zh-hans")
    assert "NVLink：GPU 0-1，每方向 100 GB/s" in text
    assert "NUMA 1：GPU 2" in text
    assert "GPU 与网卡之间的路径" in page("zh-hans", "/cluster/n1/")


def test_the_table_has_a_row_for_each_gpu_and_each_nic(page):
    node_with_topology("n1", BRIDGED)
    table = re.search(r"Paths between.*?</details>", page(path="/cluster/n1/"), re.S)
    assert table
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table[0], re.S)
    cells = {name: re.findall(r"<td[^>]*>(.*?)</td>", rest) for name, rest in rows}
    assert cells == {
        "GPU 0": ["X", "NV4", "SYS", "mlx5_0"],
        "GPU 1": ["NV4", "X", "SYS", "mlx5_0"],
        "GPU 2": ["SYS", "SYS", "X", ""],
        "mlx5_0": ["PIX", "PXB", "SYS", "InfiniBand, 400 Gbit/s"],
        "eth0": ["SYS", "SYS", "", "Ethernet, link down"],
    }
    assert table[0].count('scope="col"') == 5


def test_nodes_of_one_nvlink_domain_name_each_other(page):
    for name in ("rack1", "rack2"):
        node_with_topology(name, SWITCHED)
    node_with_topology("alone", replace(SWITCHED, cliques=(FabricClique("c-1", 4, (0,)),)))
    found = {name: joined.lines[-1] for name, joined in interconnects(topologies()).items()}
    assert found["rack1"] == "Shares an NVLink domain with rack2: GPUs 0-7"
    assert found["rack2"] == "Shares an NVLink domain with rack1: GPUs 0-7"
    assert "domain" not in found["alone"]


def test_closed_links_have_no_rate():
    node = node_with_topology(
        "n1", NodeTopology(gpus=(0, 1), groups=(GpuGroup(GroupKind.NVLINK, (0, 1)),))
    )
    with translation.override("en"):
        lines = interconnects({"n1": topology_of(node)})["n1"].lines
    assert lines == ("GPUs 0-1 are connected by NVLink, but the links are down",)


def test_words_of_a_node_are_escaped(page):
    node_with_topology("n1", replace(BRIDGED, nics=(ReportedNic("<b>eth0"),)))
    assert "<b>eth0" not in page()


def test_more_nodes_take_no_more_queries(page):
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            page()
        return len(seen)

    node_with_topology("n1", BRIDGED)
    for number in range(2, 6):
        node_with_topology(f"n{number}", SWITCHED)
    page()
    few = queries()
    for number in range(6, 12):
        node_with_topology(f"n{number}", SWITCHED)
    page()
    assert queries() <= few


@pytest.mark.parametrize(
    ("numbers", "words"), [((), ""), ((3,), "3"), ((6, 0, 2, 1), "0-2, 6"), ((1, 3), "1, 3")]
)
def test_runs_of_numbers_are_written_short(numbers, words):
    assert index_ranges(numbers) == words


def test_a_topology_of_sixteen_gpus_stays_small():
    pairs = tuple(
        GpuPair(a, b, "SYS", 18, True, 450_000) for a in range(16) for b in range(a + 1, 16)
    )
    assert len(str(encode(NodeTopology(gpus=tuple(range(16)), pairs=pairs)))) < 16_384
