"""What the collective libraries of a replica are told, and why; what its request sets, stays."""

import pytest

from agents.admission.policy import NodePolicy
from agents.collectives.place import RankPlace, common_link_layer
from agents.collectives.variables import no_rdma_reason, rank_environment, rank_variables
from agents.contract.documents import CollectiveBackend, Device, RuntimeKind, SliceKind
from agents.contract.rank_network import NoRdma, RankNetwork
from agents.contract.topology import NodeTopology, ReportedNic
from agents.rank_network.reading import default_interface, interface_of, read_rank_network
from tests.unit.agents.documents import a_replica

GPUS = tuple(Device(f"a-{n}", f"s-{n}", SliceKind.GPU, gpu_uuid=f"GPU-{n}") for n in range(2))
RAILS = tuple(
    ReportedNic(f"mlx5_{n}", "InfiniBand", True, True, 50_000, n, ("PIX", "SYS"), (n,), 1 + n)
    for n in range(2)
)
TOPOLOGY = NodeTopology(gpus=(0, 1), nics=RAILS)
NETWORK = RankNetwork(interface="eth0", rdma="InfiniBand")
RECORDER = {
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/output/nccl_trace_rank_",
}
ROUTES = """Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
bond0 00000000 0100000A 0003 0 0 100 00000000 0 0 0
wlan0 00000000 0100000A 0003 0 0 600 00000000 0 0 0
down0 00000000 0100000A 0002 0 0 1 00000000 0 0 0
docker0 000011AC 00000000 0001 0 0 0 0000FFFF 0 0 0
"""


def place(network=NETWORK, topology=TOPOLOGY, **fields):
    replica = a_replica(
        **{"devices": GPUS, "world": 2, "processes": 2, "rdma": True, "env": {}} | fields
    )
    return RankPlace.of_replica(replica, network, topology, {"GPU-0": 0, "GPU-1": 1}, "/output")


def told(**fields):
    return rank_environment(place(**fields))


def test_ranks_of_several_nodes_are_told_interface_and_rails():
    assert told() == RECORDER | {
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_SOCKET_IFNAME": "=eth0",
        "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:2",
    }
    assert told(devices=GPUS[1:])["NCCL_IB_HCA"] == "=mlx5_1:2"


def test_a_replica_alone_has_no_network_but_its_ranks_are_recorded():
    assert told(world=1, rdma=False) == RECORDER
    # One process for two GPUs: a launcher in the command starts the ranks.
    assert told(world=1, processes=1, rdma=False) == RECORDER
    assert told(world=1, processes=1, rdma=False, devices=GPUS[:1]) == {}


def test_gloo_is_told_its_interface_alone():
    gloo = {"GLOO_SOCKET_IFNAME": "eth0"}
    assert told(backend=CollectiveBackend.GLOO, rdma=False) == gloo
    slices = (Device("a", "s", SliceKind.MIG, gpu_uuid="GPU-0", profile="1g.10gb"),)
    assert told(devices=slices, processes=1, rdma=False) == gloo
    assert told(devices=(), processes=1, rdma=False) == gloo


def test_without_rdma_no_rank_looks_for_a_device_and_the_reason_is_told():
    assert told(rdma=False)["NCCL_IB_DISABLE"] == "1"
    network = RankNetwork(interface="eth0", no_rdma="policy")
    (disabled,) = (
        one for one in rank_variables(place(network, rdma=False)) if one.name == "NCCL_IB_DISABLE"
    )
    assert disabled.why.text == "No RDMA: the node's policy does not offer it to jobs."
    sentences = {no_rdma_reason(code).text for code in (*NoRdma, "a newer one")}
    assert len(sentences) == len(NoRdma) + 1


def test_what_a_request_sets_stays_and_is_told_beside_what_it_replaces():
    mine = {"NCCL_IB_HCA": "mlx5_7", "TORCH_FR_BUFFER_SIZE": "0", "NCCL_ALGO": "Ring", "SEED": "1"}
    env = told(env=mine)
    assert not env.keys() & mine.keys()
    assert "TORCH_NCCL_TRACE_BUFFER_SIZE" not in env
    seen = {one.name: one for one in rank_variables(place(env=mine)) if one.is_requested}
    assert {name: one.value for name, one in seen.items()} == {
        name: value for name, value in mine.items() if name != "SEED"
    }
    would = "Set by the request; Tessera would set =mlx5_0:1,mlx5_1:2."
    assert seen["NCCL_IB_HCA"].why.text == would
    assert seen["NCCL_ALGO"].why.text == "Set by the request."


def test_what_the_owner_knows_of_the_fabric_is_told_where_it_holds():
    known = {"interface": "eth0", "rdma": "InfiniBand", "gdr_level": "PXB", "sharp": True}
    env = told(network=RankNetwork(**known, peermem=True, mnnvl="off"))
    assert (env["NCCL_NET_GDR_LEVEL"], env["NCCL_COLLNET_ENABLE"]) == ("PXB", "1")
    assert env["NCCL_MNNVL_ENABLE"] == "0"
    assert "NCCL_NET_GDR_LEVEL" not in told(network=RankNetwork(**known))
    sockets = told(network=RankNetwork(**known, peermem=True), rdma=False)
    assert not sockets.keys() & {"NCCL_NET_GDR_LEVEL", "NCCL_COLLNET_ENABLE", "NCCL_MNNVL_ENABLE"}


def roce(*indexes):
    return NodeTopology(
        gpus=(0, 1),
        nics=tuple(
            ReportedNic(f"mlx5_{n}", "Ethernet", True, True, rail_of=(n,), gid_index=index)
            for n, index in enumerate(indexes)
        ),
    )


def test_the_index_of_roce_is_told_where_all_rails_agree():
    assert told(topology=roce(3, 3))["NCCL_IB_GID_INDEX"] == "3"
    for unlike in (roce(3, 5), roce(3, None)):
        assert "NCCL_IB_GID_INDEX" not in told(topology=unlike)
    assert "NCCL_COLLNET_ENABLE" not in told(
        topology=roce(3, 3), network=RankNetwork(rdma="Ethernet", sharp=True)
    )


def test_ranks_on_different_link_layers_would_not_meet():
    assert common_link_layer(TOPOLOGY) == "InfiniBand"
    assert common_link_layer(NodeTopology(gpus=(0, 1), nics=(RAILS[0], roce(3, 3).nics[1]))) == ""
    assert common_link_layer(NodeTopology(gpus=(0, 1), nics=RAILS[:1])) == ""
    assert common_link_layer(NodeTopology()) == ""


def test_the_interface_of_an_address_is_the_one_that_has_it():
    assert interface_of("127.0.0.1") in ("lo", "")  # empty without the program ip
    assert interface_of("192.0.2.99") == interface_of("") == ""


def test_without_an_address_the_hosts_interface_is_that_of_its_default_route():
    assert default_interface(ROUTES) == "bond0"
    assert default_interface(ROUTES.splitlines()[0]) == ""


def test_the_node_says_what_its_network_offers_and_why_not(tmp_path):
    (tmp_path / "proc" / "net").mkdir(parents=True)
    (tmp_path / "proc" / "net" / "route").write_text(ROUTES, "utf-8")
    (tmp_path / "sys" / "module" / "nvidia_peermem").mkdir(parents=True)

    def read(runtime=RuntimeKind.DOCKER, topology=TOPOLOGY, own="", **keys):
        policy = NodePolicy(**keys)
        return read_rank_network(policy, runtime, topology, tmp_path, address_interface=own)

    assert read() == RankNetwork("eth0", no_rdma="policy", peermem=True)
    assert read(network="host", rdma=True) == RankNetwork("bond0", "InfiniBand", peermem=True)
    assert read(network="host", own="ib0").interface == "ib0"
    assert read(network="host", own="ib0", fabric_interface="ens8").interface == "ens8"
    assert read(own="ib0").interface == "eth0"
    assert read(rdma=True, topology=NodeTopology()).no_rdma == "no_rail"
    # InfiniBand has addresses of its own; those of RoCE are of an interface of the host.
    assert read(rdma=True).rdma == "InfiniBand"
    assert read(rdma=True, topology=roce(3, 3)).no_rdma == "container_network"
    assert read(RuntimeKind.PROCESS, roce(3, 3), rdma=True).rdma == "Ethernet"


@pytest.mark.parametrize("allowed", [True, False])
def test_a_replica_with_rdma_is_refused_where_the_policy_offers_none(allowed):
    refusal = NodePolicy(rdma=allowed).refusal(a_replica(rdma=True), RuntimeKind.DOCKER)
    assert refusal == ("" if allowed else "this node's policy does not offer RDMA to jobs")
