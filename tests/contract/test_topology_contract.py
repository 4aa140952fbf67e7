"""How GPUs are joined, read through pynvml: of every simulated layout, and with `-m gpu` of the
machine's own driver, where nothing is changed. The commands' JSON is held to its schema."""

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from ctypes import ArgumentError
from pathlib import Path

import jsonschema
import pynvml
import pytest

from agents.__main__ import main
from agents.commands import inventory
from agents.facts.wiring import LinkPeer, PathLevel, PeerStatus
from agents.host.system_reserve import HostCapacity
from agents.nvml.errors import NvmlFailure
from agents.nvml.profiles import read_profiles
from agents.nvml.session import Nvml
from agents.simdriver.install import install, uninstall
from agents.simdriver.layouts import LAYOUTS, path_level, switch_bus_id
from agents.simdriver.state import new_node, node_from_json, node_to_json
from agents.simdriver.store import Store
from agents.topology.reading import read_topology
from tests.contract.drivers import handle, possible_placements, real

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
SIMULATED = "TESSERA_SIMULATED_DRIVER"
EVERY = [*LAYOUTS, pytest.param("real", marks=pytest.mark.gpu)]
NVSWITCH = ("a100-nvswitch-8", "h100-nvswitch-8", "h200-nvswitch-8")
COMMANDS = ("inventory", "topology")


def a_node(name: str):
    """Of a layout; of the flat one four H200."""
    layout = LAYOUTS[name]
    board, gpus = layout.board or "H200-141GB", layout.gpus or 4
    return new_node(board=board, gpus=gpus, seed=7, latency=False, layout=layout)


@contextlib.contextmanager
def simulated(path: Path, name: str) -> Iterator[tuple[Nvml, Store]]:
    store = Store(path)
    store.create(a_node(name))
    install(path)
    nvml = Nvml()
    yield nvml, store
    nvml.close()
    uninstall()


@pytest.fixture
def node(tmp_path, request):
    """A simulated node of the layout that the test names."""
    with simulated(tmp_path / "driver.json", getattr(request, "param", "h200-nvswitch-8")) as found:
        yield found


@pytest.fixture(params=EVERY)
def nvml(request, tmp_path):
    if request.param == "real":
        with real() as session:
            yield session
        return
    with simulated(tmp_path / "driver.json", request.param) as (session, _):
        yield session


@pytest.fixture(params=EVERY)
def said(request, tmp_path, monkeypatch, capsys):
    """What a command prints of a node: call it with the command's words."""
    if request.param == "real":
        monkeypatch.delenv(SIMULATED, raising=False)
        with real():
            pass
    else:
        Store(tmp_path / "driver.json").create(a_node(request.param))
        monkeypatch.setenv(SIMULATED, str(tmp_path / "driver.json"))

    def say(*words: str) -> str:
        assert main([*words]) == 0
        return capsys.readouterr().out

    yield say
    uninstall()


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_command_prints_as_json_keeps_to_its_schema(said, command):
    schema = json.loads((SCHEMAS / f"{command}.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(said(command, "--json")), schema)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_schema_refuses_what_is_never_said(command, tmp_path, monkeypatch, capsys):
    Store(tmp_path / "driver.json").create(a_node("a30-bridge-2"))
    monkeypatch.setenv(SIMULATED, str(tmp_path / "driver.json"))
    assert main([command, "--json"]) == 0
    uninstall()
    document = json.loads(capsys.readouterr().out)
    schema = json.loads((SCHEMAS / f"{command}.json").read_text("utf-8"))
    for wrong in ({**document, "more": 1}, {**document, "mb_per_second": [[-1]]}, {"schema": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_the_inventory_tells_the_disk_for_jobs_or_that_it_cannot(said, tmp_path):
    schema = json.loads((SCHEMAS / "inventory.json").read_text("utf-8"))
    here = ("inventory", "--disk-folder", str(tmp_path), "--disk-reserve", "0%")
    told = json.loads(said(*here, "--json"))
    assert 0 <= told["disk_mib"] <= shutil.disk_usage(tmp_path).total >> 20
    assert f"disk for jobs: {told['disk_mib'] // 1024} GiB\n" in said(*here)
    gone = ("inventory", "--disk-folder", str(tmp_path / "gone"))
    assert json.loads(said(*gone, "--json"))["disk_mib"] is None
    assert "disk for jobs: not known\n" in said(*gone)
    jsonschema.validate(told, schema)
    del told["disk_mib"]
    jsonschema.validate(told, schema)  # what an older agent says


def test_the_inventory_has_what_jobs_are_offered_and_what_is_kept(said, tmp_path, monkeypatch):
    monkeypatch.setattr(inventory, "host_capacity", lambda: HostCapacity(192_000, 2_000_000))
    policy = tmp_path / "policy.toml"
    policy.write_text('cpu_reserve = "2.5"\nmemory_reserve = "1%"\n', "utf-8")
    policy.chmod(0o644)
    host = json.loads(said("inventory", "--policy", str(policy), "--json"))["host"]
    assert host == {
        "cpu_milli": 189_500,
        "memory_mib": 1_980_000,
        "reserved_cpu_milli": 2_500,
        "reserved_memory_mib": 20_000,
    }
    line = "for jobs: 189.5 CPUs and 1980000 MiB of memory; kept for the system: 2.5 CPUs and"
    assert line in said("inventory", "--policy", str(policy))
    assert "kept for the system: 0 CPUs" in said("inventory"), "of a simulated node by default"


def test_inventory_and_topology_tell_the_same_gpus_and_the_same_rates(said):
    inventory, topology = (json.loads(said(command, "--json")) for command in COMMANDS)
    assert inventory["gpus"] and inventory["mb_per_second"] == topology["mb_per_second"]
    for one, other in zip(inventory["gpus"], topology["gpus"], strict=True):
        assert (one["index"], one["uuid"], one["pci_bus_id"]) == (
            other["index"],
            other["uuid"],
            other["pci_bus_id"],
        )


def test_the_table_names_every_gpu_and_the_short_inventory_too(said):
    gpus = json.loads(said("inventory", "--json"))["gpus"]
    head = said("topology").splitlines()[0].split("\t")
    assert head[1 : 1 + len(gpus)] == [f"GPU{gpu['index']}" for gpu in gpus]
    short = said("inventory")
    assert all(gpu["uuid"] in short for gpu in gpus)


def test_every_pair_has_a_level_an_answer_on_access_and_a_rate(nvml: Nvml):
    topology = read_topology(nvml)
    count = len(topology.gpus)
    assert len(topology.pairs) == count * (count - 1) // 2
    for pair in topology.pairs:
        assert pair.level is not None
        assert PeerStatus.UNKNOWN not in (pair.access.read, pair.access.write, pair.access.nvlink)
        assert pair.mb_per_second > 0


def test_every_gpu_tells_its_slot_its_cpus_and_its_memory(nvml: Nvml):
    for gpu in read_topology(nvml).gpus:
        assert gpu.pcie_mb_per_second > 0
        assert gpu.cpus and list(gpu.cpus) == sorted(set(gpu.cpus))
        assert gpu.numa_nodes
        assert {g.uuid: g.numa_node for g in nvml.devices()}[gpu.uuid] == gpu.numa_nodes[0]


def test_levels_are_the_same_from_both_ends(nvml: Nvml):
    handles = [handle(gpu.uuid) for gpu in nvml.devices()]
    for one in handles:
        for other in handles:
            if one is not other:
                ask = pynvml.nvmlDeviceGetTopologyCommonAncestor
                assert ask(one, other) == ask(other, one)


def test_a_link_beyond_the_last_one_that_any_gpu_can_have_is_refused(nvml: Nvml):
    gpu = handle(nvml.devices()[0].uuid)
    with pytest.raises((pynvml.NVMLError_InvalidArgument, pynvml.NVMLError_NotSupported)):
        pynvml.nvmlDeviceGetNvLinkState(gpu, pynvml.NVML_NVLINK_MAX_LINKS)


def test_profiles_come_with_the_places_that_the_driver_tells(nvml: Nvml):
    for gpu in nvml.devices():
        profiles = read_profiles(gpu.uuid)
        # Ampere tells them only while MIG is on.
        silent = gpu.board.mode_change_needs_reset and not gpu.mig_current
        assert bool(profiles) == (gpu.board.supports_mig and not silent)
        for profile in profiles:
            places = possible_placements(handle(gpu.uuid), profile.id)
            assert list(profile.places) == places and len(places) >= profile.max_instances
            assert (profile.remaining is None) == (not gpu.mig_current)


@pytest.mark.parametrize("node", NVSWITCH, indirect=True)
def test_nvswitches_make_one_domain_with_all_links_between_any_two_gpus(node):
    nvml, store = node
    topology = read_topology(nvml)
    layout = LAYOUTS[store.node().layout]
    assert topology.domains == (tuple(range(8)),)
    assert {(p.nvlinks, p.switched) for p in topology.pairs} == {(layout.links, True)}
    assert {p.mb_per_second for p in topology.pairs} == {layout.links * 25_000}
    for gpu in topology.gpus:
        ends = [link.remote_bus_id for link in gpu.links]
        assert [ends.count(switch_bus_id(s)) for s in range(len(layout.switches))] == list(
            layout.switches
        )


LEVELS = {
    "flat": "NODE SYS SYS SYS SYS NODE",
    "l40s-pcie-4": "PIX SYS SYS SYS SYS PIX",
    "a30-bridge-2": "PHB",
    "a100-nvswitch-8": "PXB NODE NODE SYS SYS SYS SYS",
    "h200-nvswitch-8": "NODE NODE NODE SYS SYS SYS SYS",
}


@pytest.mark.parametrize(("node", "levels"), LEVELS.items(), indirect=["node"])
def test_the_first_pairs_of_each_layout_have_the_levels_of_such_machines(node, levels):
    found = [pair.level for pair in read_topology(node[0]).pairs]
    assert " ".join(found[: len(levels.split())]) == levels


@pytest.mark.parametrize("node", ["a30-bridge-2"], indirect=True)
def test_a_bridge_joins_two_gpus_directly(node):
    topology = read_topology(node[0])
    assert {link.remote for gpu in topology.gpus for link in gpu.links} == {LinkPeer.GPU}
    assert [(p.label, p.switched, p.mb_per_second) for p in topology.pairs] == [
        ("NV4", False, 100_000)
    ]
    assert topology.domains == ()


@pytest.mark.parametrize("node", ["l40s-pcie-4", "flat"], indirect=True)
def test_a_node_without_nvlink_answers_not_supported_and_has_no_links(node):
    nvml, _ = node
    assert all(gpu.links == () for gpu in read_topology(nvml).gpus)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetNvLinkState(handle(nvml.devices()[0].uuid), 0)


def test_links_that_are_down_are_missed_by_every_pair_of_their_gpu(node):
    nvml, store = node
    with store.change() as state:
        state.gpus[2].nvlinks_down = [0, 7]
    words = {(p.first, p.second): p.label for p in read_topology(nvml).pairs}
    assert {words[pair] for pair in words if 2 in pair} == {"NV16"}
    assert {words[pair] for pair in words if 2 not in pair} == {"NV18"}
    gpu = handle(nvml.devices()[2].uuid)
    assert pynvml.nvmlDeviceGetNvLinkState(gpu, 7) == pynvml.NVML_FEATURE_DISABLED
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetNvLinkRemotePciInfo(gpu, 7)


def test_mig_takes_peer_access_from_the_pairs_of_its_gpu_and_no_other(node):
    nvml, _ = node
    nvml.set_mig_mode(nvml.devices()[3].uuid, on=True)
    for pair in read_topology(nvml).pairs:
        closed = 3 in (pair.first, pair.second)
        assert (
            (pair.access.nvlink is PeerStatus.OK)
            is (pair.access.read is PeerStatus.OK)
            is not closed
        )
        assert (pair.mb_per_second < 100_000) is closed


def test_a_lost_gpu_is_left_out_and_the_rest_is_told(node):
    nvml, store = node
    with store.change() as state:
        state.gpus[3].lost = True
    topology = read_topology(nvml)
    assert [gpu.index for gpu in topology.gpus] == [0, 1, 2, 4, 5, 6, 7]
    assert topology.domains == ((0, 1, 2, 4, 5, 6, 7),)


@pytest.mark.parametrize("node", ["a30-bridge-2"], indirect=True)
def test_calls_about_a_mig_device_are_refused_as_links_are_the_parents(node):
    nvml, _ = node
    gpu = nvml.devices()[0].uuid
    nvml.set_mig_mode(gpu, on=True)
    profile = read_profiles(gpu)[0]
    device = handle(nvml.create_instance(gpu, profile.id, *profile.places[0]).uuid)
    for ask in (
        lambda: pynvml.nvmlDeviceGetNvLinkState(device, 0),
        lambda: pynvml.nvmlDeviceGetTopologyCommonAncestor(device, handle(gpu)),
        lambda: pynvml.nvmlDeviceGetCpuAffinity(device, 1),
    ):
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            ask()


def test_wrong_arguments_are_refused_as_the_library_does(node):
    nvml, _ = node
    one, other = (handle(gpu.uuid) for gpu in nvml.devices()[:2])
    for ask in (
        lambda: pynvml.nvmlDeviceGetP2PStatus(one, other, 9),
        lambda: pynvml.nvmlDeviceGetCpuAffinity(one, 0),
        lambda: pynvml.nvmlDeviceGetMemoryAffinity(one, 1, 7),
        lambda: pynvml.nvmlDeviceGetTopologyCommonAncestor(one, None),
    ):
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            ask()
    assert pynvml.nvmlDeviceGetP2PStatus(one, one, 0) == pynvml.NVML_P2P_STATUS_OK
    with pytest.raises(ArgumentError):
        pynvml.nvmlDeviceGetP2PStatus(one, other, pynvml.NVML_P2P_CAPS_INDEX_READ)


def test_fewer_words_than_cpus_are_filled_as_far_as_they_go(node):
    nvml, _ = node
    gpu = nvml.devices()[0].uuid
    assert list(pynvml.nvmlDeviceGetCpuAffinity(handle(gpu), 1)) == [(1 << 56) - 1]
    assert len(read_topology(nvml).gpus[0].cpus) == 112


def test_a_state_file_of_before_there_were_layouts_is_a_flat_node():
    old = node_to_json(new_node(board="H200-141GB", gpus=4, seed=7, latency=False))
    del old["layout"]
    for gpu in old["gpus"]:
        del gpu["nvlinks_down"]
    assert node_from_json(old) == a_node("flat")


def test_a_state_file_of_a_layout_that_nobody_knows_is_refused():
    with pytest.raises(ValueError, match="ring-of-9"):
        node_from_json({**node_to_json(a_node("flat")), "layout": "ring-of-9"})


@pytest.mark.parametrize("gpus", [1, 16])
def test_the_flat_layout_takes_any_number_of_gpus(tmp_path, gpus):
    store = Store(tmp_path / "driver.json")
    store.create(new_node(board="A30-24GB", gpus=gpus, seed=7, latency=False))
    install(store.path)
    nvml = Nvml()
    assert len(read_topology(nvml).matrix()) == gpus
    nvml.close()
    uninstall()


def test_each_layout_lists_switches_for_all_links_and_places_on_nodes_with_cpus():
    for layout in LAYOUTS.values():
        assert sum(layout.switches) in (0, layout.links)
        assert all(place.numa < len(layout.cpus) for place in layout.places)
        cpus = [cpu for near in layout.cpus for cpu in near]
        assert sorted(cpus) == list(range(len(cpus)))
        assert all(path_level(p, p) == 10 for p in layout.places)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_a_driver_says_so_in_a_sentence(command, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(SIMULATED, str(tmp_path / "nowhere.json"))
    assert main([command, "--json"]) == 1
    said = capsys.readouterr()
    assert said.out == "" and "nowhere.json" in said.err and "Traceback" not in said.err


def test_the_reading_commands_need_none_of_the_agents_other_libraries(tmp_path):
    Store(tmp_path / "driver.json").create(a_node("a30-bridge-2"))
    code = (
        "import sys\n"
        "absent = ['docker', 'httpx', 'cryptography', 'django', 'numpy']\n"
        "sys.modules.update(dict.fromkeys(absent))\n"
        "from agents.__main__ import main\n"
        "sys.exit(main(['inventory']) or main(['topology', '--json']))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={SIMULATED: str(tmp_path / "driver.json")},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_driver_in_trouble_is_an_error_and_not_an_empty_answer(node):
    nvml, store = node
    gpu = nvml.devices()[1]
    with store.change() as state:
        state.gpus[1].lost = True
    with pytest.raises(NvmlFailure, match=gpu.uuid):
        read_profiles(gpu.uuid)


def test_levels_of_the_simulation_are_those_that_the_agent_knows():
    assert {"PIX", "PXB", "PHB", "NODE", "SYS"} == set(PathLevel) - {"INT"}
