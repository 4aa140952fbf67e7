"""NICs, PCI paths and NVLink fabrics of simulated nodes, and the real machine's with `-m gpu`: what
sysfs and NVML say of the same GPUs agrees. Commands on every board keep to their schemas."""

import json
import shutil
from itertools import combinations
from pathlib import Path

import jsonschema
import pynvml
import pytest

from agents.__main__ import main
from agents.commands.hardware import network_of
from agents.contract.boards import known_boards
from agents.contract.codec import decode, encode
from agents.contract.documents import ObservedDocument
from agents.contract.topology import FabricClique, GroupKind, NodeTopology
from agents.facts.wiring import FabricState, PathLevel
from agents.hardware import Hardware
from agents.loop.observe import observed_document
from agents.nvml.session import Nvml
from agents.runtime.process import ProcessRuntime
from agents.simdriver.install import install, uninstall
from agents.simdriver.layouts import LAYOUTS
from agents.simdriver.state import SimulatedNode, new_node
from agents.simdriver.store import Store
from agents.simdriver.sysfs import sysfs_tree
from agents.topology.pairs import GpuTopology
from agents.topology.pci import level_between
from agents.topology.reading import read_topology
from agents.topology.sysfs import read_network
from agents.topology.wiring import WiringCache, topology_report
from tests.contract.drivers import handle, real

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
SIMULATED = "TESSERA_SIMULATED_DRIVER"
NVSWITCH = ("a100-nvswitch-8", "h100-nvswitch-8", "h200-nvswitch-8")
CLUSTER = "5f2c1d3e-0000-4000-8000-00000000beef"


@pytest.fixture
def state(tmp_path, monkeypatch):
    """Makes a simulated node and sets it as this process's; undone after the test."""
    path = tmp_path / "driver.json"
    monkeypatch.delenv("TESSERA_SYSFS", raising=False)

    def make(
        layout: str, *, board: str | None = None, gpus: int | None = None, **fields
    ) -> SimulatedNode:
        kind = LAYOUTS[layout]
        board = board or kind.board or "H200-141GB"
        count = gpus or kind.gpus or 4
        node = new_node(board=board, gpus=count, seed=7, latency=False, layout=kind)
        for name, value in fields.items():
            setattr(node, name, value)
        Store(path).create(node)
        monkeypatch.setenv(SIMULATED, str(path))
        install(path)
        return node

    make.path = path  # type: ignore[attr-defined]
    yield make
    uninstall()


def topology() -> GpuTopology:
    nvml = Nvml()
    try:
        return read_topology(nvml)
    finally:
        nvml.close()


def require_agreement(found: GpuTopology, *, all_gpus: bool) -> None:
    network = network_of(found)
    assert not all_gpus or set(network.gpus) == {gpu.index for gpu in found.gpus}
    for pair in found.pairs:
        if {pair.first, pair.second} <= set(network.gpus):
            assert level_between(network.gpus[pair.first], network.gpus[pair.second]) is pair.level
    for gpu in found.gpus:
        place = network.gpus.get(gpu.index)
        if place and place.numa_node is not None and gpu.numa_nodes:
            assert place.numa_node == gpu.numa_nodes[0]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nvml_and_sysfs_agree_on_every_pair_of_gpus(state, layout):
    state(layout)
    require_agreement(topology(), all_gpus=True)


@pytest.mark.gpu
def test_nvml_and_sysfs_agree_on_the_gpus_of_this_machine(monkeypatch):
    monkeypatch.delenv(SIMULATED, raising=False)
    with real() as nvml:
        require_agreement(read_topology(nvml), all_gpus=False)


def commands_keep_to_their_schemas(capsys) -> None:
    for command in ("inventory", "topology"):
        assert main([command, "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        schema = json.loads((SCHEMAS / f"{command}.json").read_text("utf-8"))
        jsonschema.Draft202012Validator(schema).validate(said)
        assert all(len(nic["levels"]) == len(said["gpus"]) for nic in said["nics"])
        assert [len(row) for row in said["mb_per_second"]] == [len(said["gpus"])] * len(
            said["gpus"]
        )


@pytest.mark.parametrize("board", known_boards())
def test_every_board_is_told_by_its_schemas(state, board, capsys):
    state("flat", board=board, gpus=3)
    commands_keep_to_their_schemas(capsys)


def test_sixteen_gpus_have_sixteen_bus_ids_that_keep_to_the_schemas(state, capsys):
    node = state("flat", gpus=16)
    assert len({gpu.pci_bus_id for gpu in node.gpus}) == 16
    commands_keep_to_their_schemas(capsys)


@pytest.mark.parametrize("layout", NVSWITCH)
def test_each_gpu_of_a_dgx_has_a_rail_of_its_own_beside_it(state, layout):
    state(layout)
    network = network_of(topology())
    rails = network.rails()
    assert [rails[gpu].name for gpu in range(8)] == [f"mlx5_{n}" for n in range(8)]
    assert {rails[gpu].link_layer for gpu in rails} == {"InfiniBand"}
    assert {network.level(gpu, rails[gpu]) for gpu in rails} == {PathLevel.SEVERAL_SWITCHES}


# Of the threads that layouts.py names: GPU0 and GPU4 against the compute NICs, then the storage.
NEAR = {
    "a100-nvswitch-8": (
        "PXB PXB NODE NODE SYS SYS SYS SYS NODE NODE SYS SYS",
        "SYS SYS SYS SYS PXB PXB NODE NODE SYS SYS NODE NODE",
    ),
    "h100-nvswitch-8": (
        "PXB NODE NODE NODE SYS SYS SYS SYS NODE NODE SYS SYS",
        "SYS SYS SYS SYS PXB NODE NODE NODE SYS SYS NODE NODE",
    ),
}


@pytest.mark.parametrize("layout", NEAR)
def test_nics_are_as_near_as_in_such_machines(state, layout):
    state(layout)
    network = network_of(topology())
    found = [" ".join(network.level(gpu, nic) for nic in network.nics) for gpu in (0, 4)]
    assert tuple(found) == NEAR[layout]


def test_two_ports_of_one_card_are_closer_than_any_two_cards(state):
    state("h200-nvswitch-8")
    nics = network_of(topology()).nics
    near = {
        (a.name, b.name)
        for a, b in combinations(nics, 2)
        if level_between(a.place, b.place) is PathLevel.SINGLE_SWITCH
    }
    assert near == {("mlx5_8", "mlx5_9"), ("mlx5_10", "mlx5_11")}


def test_the_table_has_a_column_and_a_row_for_each_nic_and_a_legend(state, capsys):
    state("h200-nvswitch-8")
    assert main(["topology"]) == 0
    text = capsys.readouterr().out
    head, first, *_ = text.splitlines()
    assert head.split("\t")[1:21] == [f"GPU{n}" for n in range(8)] + [f"NIC{n}" for n in range(12)]
    assert first.split("\t")[9:13] == ["PXB", "NODE", "NODE", "NODE"]
    rows = {line.split("\t")[0]: line.split("\t")[1:] for line in text.splitlines()[1:21]}
    assert rows["NIC9"][16:18] == ["PIX", "X"]
    assert "  NIC3: mlx5_3 (InfiniBand, 400 Gbit/s, ib3); rail of GPU3\n" in text


def test_the_table_tells_rates_and_peer_access_of_every_pair(state, capsys):
    state("a30-bridge-2")
    assert main(["topology"]) == 0
    text = capsys.readouterr().out
    assert "GPU0\tX\t100\nGPU1\t100\tX\n" in text
    assert "GPU0\tX\tOK/OK/OK/OK\n" in text


def test_the_tree_is_made_once_and_can_be_changed_by_hand(state, capsys):
    state("a30-bridge-2")
    tree = sysfs_tree(state.path)
    port = next(tree.glob("devices/*/*/*/infiniband/mlx5_0/ports/1/state"))
    port.write_text("1: DOWN\n")
    assert main(["topology", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [(nic["up"], nic["mb_per_second"]) for nic in said["nics"]] == [(False, 0)]
    assert [gpu["rail"] for gpu in said["gpus"]] == [None, None]
    assert list(tree.parent.iterdir()) == [tree]


def test_a_tree_works_wherever_it_is_moved(state, tmp_path):
    state("h200-nvswitch-8")
    moved = tmp_path / "elsewhere"
    shutil.copytree(sysfs_tree(state.path), moved, symlinks=True)
    shutil.rmtree(sysfs_tree(state.path).parent)
    bus_ids = {gpu.index: gpu.pci_bus_id for gpu in topology().gpus}
    network = read_network(moved, bus_ids)
    assert (len(network.nics), len(network.gpus)) == (12, 8)


@pytest.mark.parametrize("by", ["argument", "setting"])
def test_another_tree_can_be_named(state, tmp_path, monkeypatch, capsys, by):
    state("h200-nvswitch-8")
    nowhere = tmp_path / "nowhere"
    if by == "setting":
        monkeypatch.setenv("TESSERA_SYSFS", str(nowhere))
    words = ["--sysfs", str(nowhere)] if by == "argument" else []
    for command in ("topology", "inventory"):
        assert main([command, "--json", *words]) == 0
        assert json.loads(capsys.readouterr().out)["nics"] == []


def test_hopper_on_nvswitches_completes_a_fabric_that_ends_at_the_node(state):
    state("h200-nvswitch-8")
    fabrics = {gpu.fabric for gpu in topology().gpus}
    (fabric,) = fabrics
    assert fabric is not None and (fabric.state, fabric.cluster, fabric.domain) == (
        FabricState.COMPLETED,
        "",
        "",
    )


@pytest.mark.parametrize(
    ("layout", "expected"),
    [("flat", FabricState.NOT_SUPPORTED), ("a100-nvswitch-8", None), ("l40s-pcie-4", None)],
)
def test_without_nvswitches_or_before_hopper_there_is_no_fabric(state, layout, expected):
    state(layout)
    assert {gpu.fabric and gpu.fabric.state for gpu in topology().gpus} == {expected}


def test_a_fabric_over_several_nodes_is_told_by_the_commands_and_the_document(state, capsys):
    state("h200-nvswitch-8", fabric_cluster=CLUSTER, fabric_clique=4)
    commands_keep_to_their_schemas(capsys)
    for command in ("inventory", "topology"):
        assert main([command, "--json"]) == 0
        gpus = json.loads(capsys.readouterr().out)["gpus"]
        assert {json.dumps(gpu["fabric"], sort_keys=True) for gpu in gpus} == {
            json.dumps({"state": "completed", "cluster": CLUSTER, "clique": 4}, sort_keys=True)
        }
    assert main(["topology"]) == 0
    assert f"NVLink fabric: GPUs 0-7 in cluster {CLUSTER}, clique 4" in capsys.readouterr().out
    found = topology()
    told = topology_report(found, network_of(found))
    assert told.cliques == (FabricClique(CLUSTER, 4, tuple(range(8))),)


def test_a_simulated_node_of_such_a_fabric_is_made_by_command(tmp_path, monkeypatch, capsys):
    path = tmp_path / "driver.json"
    words = ("--layout", "h200-nvswitch-8", "--fabric-cluster", CLUSTER, "--fabric-clique", "2")
    assert main(["simulate", "create", "--path", str(path), *words]) == 0
    capsys.readouterr()
    monkeypatch.setenv(SIMULATED, str(path))
    assert main(["topology"]) == 0
    uninstall()
    assert f"GPUs 0-7 in cluster {CLUSTER}, clique 2" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["simulate", "create", "--path", str(path), "--fabric-cluster", "here"])


def test_a_struct_of_another_version_is_refused_as_the_library_does(state):
    state("h200-nvswitch-8")
    nvml = Nvml()
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    info.version = 7
    with pytest.raises(pynvml.NVMLError_ArgumentVersionMismatch):
        pynvml.nvmlDeviceGetGpuFabricInfoV(handle(nvml.devices()[0].uuid), pynvml.byref(info))
    nvml.close()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_reported_comes_through_the_wire_unchanged(state, layout):
    state(layout)
    found = topology()
    told = topology_report(found, network_of(found))
    document = ObservedDocument(node="n-1", topology=told)
    text = json.dumps(encode(document))
    assert decode(ObservedDocument, json.loads(text)).topology == told
    assert len(text) < 16_384
    kinds = [group.kind for group in told.groups]
    assert (GroupKind.NVSWITCH in kinds) is (layout in NVSWITCH)
    assert (GroupKind.NVLINK in kinds) is (layout == "a30-bridge-2")


def test_the_nodes_document_follows_its_mig_modes(state, tmp_path):
    """What the agent reports, by its own look at the hardware."""
    state("a30-bridge-2")
    nvml = Nvml()
    wiring = WiringCache(
        lambda: topology_report(read_topology(nvml), network_of(read_topology(nvml)))
    )
    runtime = ProcessRuntime(tmp_path / "replicas")
    hardware = Hardware(nvml, runtime, tmp_path, simulated=True, wiring=wiring)

    def rates() -> list[tuple[int, int]]:
        told = observed_document("n-1", hardware, (), {}, {}).topology
        pair = told.pairs[0].mb_per_second
        return [(g.mb_per_second, pair) for g in told.groups if g.kind is GroupKind.NVLINK]

    assert rates() == [(100_000, 100_000)]
    nvml.set_mig_mode(nvml.devices()[0].uuid, on=True)
    hardware.refresh()
    assert rates() == [(0, 31_507)]
    runtime.close()
    nvml.close()


def test_an_agent_that_tells_no_topology_is_understood():
    data = encode(ObservedDocument(node="n-1"))
    del data["topology"]
    assert decode(ObservedDocument, data).topology == NodeTopology()
