"""What NCCL of a gang is told on simulated nodes: by the agent's own reading, in real recipes."""

import pytest

from agents.admission.policy import NodePolicy
from agents.commands.hardware import network_of, network_tree
from agents.contract.documents import Device, RuntimeKind, SliceKind
from agents.nvml.session import Nvml
from agents.rank_network.facts import NodeNetworkFacts
from agents.rank_network.grants import with_rank_network
from agents.rank_network.reading import read_rank_network
from agents.runtime.base import RuntimeFailure
from agents.runtime.docker_images import ChosenImage
from agents.runtime.docker_recipe import ContainerRecipe
from agents.runtime.grants import no_grant
from agents.runtime.injection import Injection
from agents.simdriver.install import install, uninstall
from agents.simdriver.layouts import LAYOUTS
from agents.simdriver.state import new_node
from agents.simdriver.store import Store
from agents.topology.reading import read_topology
from agents.topology.wiring import topology_report
from agents.workspace.folders import folders_below
from agents.workspace.workspaces import Workspaces
from tests.unit.agents.documents import a_replica
from tests.unit.agents.test_launch import MEETING

ON_HOST = NodePolicy(network="host", fabric_interface="bond0", rdma=True)
IMAGE = ChosenImage("train:1", "id:sha256:1", {})


@pytest.fixture
def simulated(tmp_path, monkeypatch):
    """Makes a simulated node, and reads its network as an agent does under a policy."""
    monkeypatch.delenv("TESSERA_SYSFS", raising=False)

    def make(layout: str, policy: NodePolicy, runtime=RuntimeKind.DOCKER):
        kind, path = LAYOUTS[layout], tmp_path / f"{layout}.json"
        node = new_node(board=kind.board, gpus=kind.gpus, seed=7, latency=False, layout=kind)
        Store(path).create(node)
        monkeypatch.setenv("TESSERA_SIMULATED_DRIVER", str(path))
        install(path)
        nvml = Nvml()
        gpus = read_topology(nvml)
        nvml.close()
        topology = topology_report(gpus, network_of(gpus))
        network = read_rank_network(policy, runtime, topology, tmp_path)
        indexes = {gpu.uuid: gpu.index for gpu in gpus.gpus}
        return NodeNetworkFacts(network, topology, indexes)

    yield make
    uninstall()


def rank(facts, gpus=range(8), **fields):
    """One of two replicas, with these GPUs of its node."""
    uuids = [uuid for uuid, index in facts.gpu_indexes.items() if index in gpus]
    devices = tuple(Device(f"a-{u}", f"s-{u}", SliceKind.GPU, gpu_uuid=u) for u in uuids)
    return a_replica(**{"devices": devices, "processes": len(uuids), "rdma": True} | fields)


def options(facts, replica, tmp_path, policy=ON_HOST):
    """What the engine is asked for. The host has the device nodes that its cards would have."""
    for number in range(12):
        (tmp_path / f"uverbs{number}").touch()
    (tmp_path / "rdma_cm").touch()
    grant = with_rank_network(
        no_grant, lambda: facts, RuntimeKind.DOCKER, network_tree(), folders_below, tmp_path
    )
    recipe = ContainerRecipe("n-1", policy, Injection("nvidia"), grant, Workspaces(tmp_path))
    return recipe.options(replica, (), MEETING, IMAGE)


def collective(env):
    return {name: value for name, value in env.items() if "NCCL" in name or "GLOO" in name}


def test_the_two_by_eight_job_has_exactly_the_rails_of_its_gpus(simulated, tmp_path):
    facts = simulated("h100-nvswitch-8", ON_HOST)
    asked = options(facts, rank(facts), tmp_path)
    assert collective(asked["environment"]) == {
        "NCCL_SOCKET_IFNAME": "=bond0",
        "GLOO_SOCKET_IFNAME": "bond0",
        "NCCL_IB_HCA": "=" + ",".join(f"mlx5_{n}:1" for n in range(8)),
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/output/nccl_trace_rank_",
    }
    nodes = [tmp_path / name for name in ("rdma_cm", *(f"uverbs{n}" for n in range(8)))]
    assert asked["devices"] == [f"{node}:{node}:rw" for node in nodes]
    assert [limit["Soft"] for limit in asked["ulimits"] if limit["Name"] == "memlock"] == [-1]


def test_a_part_of_the_gpus_has_their_rails_alone(simulated, tmp_path):
    facts = simulated("h100-nvswitch-8", NodePolicy(rdma=True))
    asked = options(facts, rank(facts, gpus=(2, 5)), tmp_path)
    env = asked["environment"]
    assert (env["NCCL_IB_HCA"], env["NCCL_SOCKET_IFNAME"]) == ("=mlx5_2:1,mlx5_5:1", "=eth0")
    assert [node.rsplit("/", 1)[1] for node in asked["devices"]] == [
        *("rdma_cm:rw", "uverbs2:rw", "uverbs5:rw")
    ]


def test_without_rdma_a_gang_has_none_of_it(simulated, tmp_path):
    facts = simulated("h100-nvswitch-8", NodePolicy())
    asked = options(facts, rank(facts, rdma=False), tmp_path)
    env = asked["environment"]
    assert (env["NCCL_IB_DISABLE"], env["NCCL_SOCKET_IFNAME"]) == ("1", "=eth0")
    assert "mlx5" not in str(env)
    assert asked["devices"] == []
    assert "memlock" not in {limit["Name"] for limit in asked["ulimits"]}


def test_roce_needs_the_hosts_network_and_has_the_index_of_its_addresses(simulated, tmp_path):
    bridged = simulated("l40s-pcie-4", NodePolicy(rdma=True))
    assert (bridged.network.rdma, bridged.network.no_rdma) == ("", "container_network")
    facts = simulated("l40s-pcie-4", ON_HOST)
    assert facts.network.rdma == "Ethernet"
    env = options(facts, rank(facts, gpus=(0, 3)), tmp_path)["environment"]
    assert (env["NCCL_IB_HCA"], env["NCCL_IB_GID_INDEX"]) == ("=mlx5_0:1,mlx5_1:1", "3")


def test_a_card_that_is_down_is_nobodys_rail_and_no_rdma_is_offered_without_one(
    simulated, tmp_path
):
    simulated("l40s-pcie-4", ON_HOST)
    ports = network_tree() / "class" / "infiniband"
    (ports / "mlx5_1" / "ports" / "1" / "state").write_text("1: DOWN\n", "utf-8")
    facts = NodeNetworkFacts(*_read_again(tmp_path))
    env = options(facts, rank(facts, gpus=(0, 3)), tmp_path)["environment"]
    assert env["NCCL_IB_HCA"] == "=mlx5_0:1"
    (ports / "mlx5_0" / "ports" / "1" / "state").write_text("1: DOWN\n", "utf-8")
    facts = NodeNetworkFacts(*_read_again(tmp_path))
    assert (facts.network.rdma, facts.network.no_rdma) == ("", "no_rail")
    with pytest.raises(RuntimeFailure, match="no RDMA device of its GPUs is up"):
        options(facts, rank(facts, gpus=(0, 3)), tmp_path)


def _read_again(root):
    nvml = Nvml()
    gpus = read_topology(nvml)
    nvml.close()
    topology = topology_report(gpus, network_of(gpus))
    network = read_rank_network(ON_HOST, RuntimeKind.DOCKER, topology, root)
    return network, topology, {gpu.uuid: gpu.index for gpu in gpus.gpus}


def test_plain_processes_meet_on_loopback_and_record_in_their_own_folder(simulated, tmp_path):
    facts = simulated("h100-nvswitch-8", NodePolicy(rdma=True), RuntimeKind.PROCESS)
    grant = with_rank_network(
        no_grant,
        lambda: facts,
        RuntimeKind.PROCESS,
        network_tree(),
        lambda replica: folders_below(tmp_path / replica),
    )
    env = grant(rank(facts), ()).env
    assert (env["GLOO_SOCKET_IFNAME"], env["NCCL_SOCKET_IFNAME"]) == ("lo", "=lo")
    dump = env["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"]
    assert dump == f"{tmp_path}/r-1/output/nccl_trace_rank_"
