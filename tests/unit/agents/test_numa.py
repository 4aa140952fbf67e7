"""To which NUMA nodes of a host a replica is bound."""

import argparse
from dataclasses import replace

import pytest

from agents.admission.policy import NodePolicy
from agents.commands import run
from agents.contract.documents import Device, Rendezvous, RuntimeKind, SliceKind
from agents.facts.wiring import GpuWiring
from agents.runtime.docker_images import ChosenImage
from agents.runtime.docker_recipe import OOM_SCORE, ContainerRecipe
from agents.runtime.grants import Grant
from agents.runtime.injection import Injection
from agents.topology.numa import (
    UNBOUND,
    NumaBinding,
    NumaNode,
    as_list,
    from_list,
    numa_host,
    read_numa_nodes,
)
from agents.topology.pairs import GpuTopology
from agents.workspace.workspaces import Workspaces
from tests.unit.agents.documents import a_replica

GIB = 1_024
MEETING = Rendezvous("10.0.0.1", 29_500)
# Two sockets with 48 cores of two threads and 1 TiB each, and four GPUs beside each of them.
NODES = (
    NumaNode(0, frozenset(range(48)) | frozenset(range(96, 144)), 1_024 * GIB),
    NumaNode(1, frozenset(range(48, 96)) | frozenset(range(144, 192)), 1_024 * GIB),
)
GPUS = tuple(GpuWiring(n, f"GPU-{n}", f"{n}", numa_nodes=(n // 4,)) for n in range(8))
HOST = numa_host(NODES, GPUS)
FAR = NumaBinding("48-95,144-191", "1")


def whole_gpus(*numbers):
    return tuple(Device(f"a-{n}", f"s-{n}", SliceKind.GPU, f"GPU-{n}") for n in numbers)


def a_slice(number, size, **fields):
    return (Device("a", "s", SliceKind.MIG, f"GPU-{number}", "p", 0, size, **fields),)


def binding(devices, cpus=8, gib=64, host=HOST, **options):
    replica = a_replica(devices=devices, cpu_milli=cpus * 1_000, memory_mib=gib * GIB)
    return host.binding(replica, **options)


def test_a_replica_is_bound_to_the_node_of_its_gpus():
    assert binding(whole_gpus(0)) == NumaBinding("0-47,96-143", "0")
    assert binding(whole_gpus(5)) == binding(whole_gpus(4, 7)) == FAR


def test_one_that_asks_for_more_than_its_gpus_part_of_the_node_is_not_bound():
    """Else four jobs of one GPU each could have more CPUs or memory than their node."""
    assert binding(whole_gpus(5), cpus=24, gib=256) == FAR
    assert binding(whole_gpus(5), cpus=25) == replace(FAR, cpus="")
    assert binding(whole_gpus(5), gib=257) == replace(FAR, memory_nodes="")
    assert binding(whole_gpus(5, 6), cpus=48, gib=512) == FAR


def test_a_slice_and_a_share_have_their_part_of_the_gpus_part():
    assert binding(a_slice(5, 4), cpus=12, gib=128) == FAR
    assert binding(a_slice(5, 4), cpus=13, gib=129) == UNBOUND
    share = (Device("a", "s", SliceKind.MPS, "GPU-5", threads=25, memory_mib=1),)
    assert binding(share, cpus=6, gib=64) == FAR
    assert binding(share, cpus=7, gib=65) == UNBOUND


@pytest.mark.parametrize(
    "devices", [(), whole_gpus(3, 4), whole_gpus(9), whole_gpus(0, 9)], ids=str
)
def test_without_gpus_or_with_those_of_every_node_or_an_unknown_one_it_is_not_bound(devices):
    assert binding(devices) == UNBOUND


def test_a_host_of_one_node_and_one_that_reports_none_bind_nothing():
    assert binding(whole_gpus(0), host=numa_host(NODES[:1], GPUS)) == UNBOUND
    assert binding(whole_gpus(0), host=numa_host((), GPUS)) == UNBOUND
    silent = [replace(gpu, numa_nodes=()) for gpu in GPUS]
    assert binding(whole_gpus(0), host=numa_host(NODES, silent)) == UNBOUND


def test_cpus_alone_are_bound_where_the_policy_says_so():
    assert binding(whole_gpus(5), memory=False) == replace(FAR, memory_nodes="")


def test_all_replicas_that_are_bound_to_a_node_fit_into_it():
    """The largest bound request of each of its GPUs, together."""
    for number in (0, 1):
        near = [gpu for gpu in GPUS if gpu.numa_nodes == (number,)]
        cpus = memory = 0
        for gpu in near:
            fitting = [n for n in range(1, 97) if binding(whole_gpus(gpu.index), cpus=n).cpus]
            cpus += max(fitting)
            sizes = range(64, 1_025, 64)
            memory += max(g for g in sizes if binding(whole_gpus(gpu.index), gib=g).memory_nodes)
        assert cpus <= len(NODES[number].cpus) and memory * GIB <= NODES[number].memory_mib


@pytest.mark.parametrize("text", ["", "0", "0-3", "0-3,8,10-11"])
def test_lists_are_those_of_the_kernel(text):
    assert as_list(from_list(f"{text}\n")) == text


def test_nodes_are_read_from_sysfs_with_the_cpus_and_the_memory_that_jobs_may_use(tmp_path):
    for number, cpus in enumerate(("0-3", "4-7")):
        folder = tmp_path / "devices" / "system" / "node" / f"node{number}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{cpus}\n", "utf-8")
        (folder / "meminfo").write_text(f"Node {number} MemTotal:  4194304 kB\n", "utf-8")
    (tmp_path / "devices" / "system" / "node" / "node2").mkdir()
    usable = frozenset(range(1, 8))
    assert read_numa_nodes(tmp_path, usable, 0.5) == [
        NumaNode(0, frozenset({1, 2, 3}), 2_048),
        NumaNode(1, frozenset({4, 5, 6, 7}), 2_048),
    ]
    assert read_numa_nodes(tmp_path / "none", usable, 0.5) == []


def test_the_engine_is_asked_for_the_cpus_and_memory_nodes_of_the_binding(tmp_path):
    granted, workspaces = Grant(cpus="0-3", memory_nodes="0"), Workspaces(tmp_path)
    recipe = ContainerRecipe(
        "n-1", NodePolicy(), Injection("nvidia"), lambda *_: granted, workspaces
    )
    image = ChosenImage("train:1", "id:sha256:1", {})
    options = recipe.options(a_replica(), (), MEETING, image)
    assert (options["cpuset_cpus"], options["cpuset_mems"]) == ("0-3", "0")
    assert options["oom_score_adj"] == OOM_SCORE


def grants(monkeypatch, policy, runtime=RuntimeKind.DOCKER):
    """What the agent grants a replica of GPU 5, whose share has a mount of its own."""

    class Shares:
        @staticmethod
        def grant(*_):
            return Grant(mounts=(("/here", "/there"),))

    monkeypatch.setattr(run, "read_topology", lambda _: GpuTopology(GPUS, (), ()))
    monkeypatch.setattr(run, "read_numa_host", lambda gpus, _: numa_host(NODES, gpus))
    settings = argparse.Namespace(runtime=runtime)
    replica = a_replica(devices=whole_gpus(5), cpu_milli=1_000, memory_mib=GIB)
    found = run._grants(settings, policy, None, Shares)(replica, ("GPU-5",))
    assert found.mounts == (("/here", "/there"),)
    return NumaBinding(found.cpus, found.memory_nodes)


def test_the_agent_binds_as_its_policy_says_and_only_containers(monkeypatch):
    assert grants(monkeypatch, NodePolicy()) == FAR
    assert grants(monkeypatch, NodePolicy(numa="cpus")) == replace(FAR, memory_nodes="")
    assert grants(monkeypatch, NodePolicy(numa="off")) == UNBOUND
    assert grants(monkeypatch, NodePolicy(), RuntimeKind.PROCESS) == UNBOUND


def test_an_agent_that_cannot_read_its_topology_starts_and_binds_nothing(monkeypatch):
    def silent(*_):
        raise OSError("no sysfs")

    monkeypatch.setattr(run, "read_numa_host", silent)
    monkeypatch.setattr(run, "read_topology", lambda _: GpuTopology((), (), ()))
    settings = argparse.Namespace(runtime=RuntimeKind.DOCKER)
    shares = argparse.Namespace(grant=lambda *_: Grant())
    assert run._grants(settings, NodePolicy(), None, shares)(a_replica(), ()) == Grant()
