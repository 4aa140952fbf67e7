"""What a replica gets for its ranks: variables, the RDMA devices of its GPUs, locked memory."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from agents.collectives.place import RankPlace
from agents.collectives.variables import rank_environment
from agents.contract.documents import DesiredReplica, RuntimeKind
from agents.contract.message import Message
from agents.contract.topology import ReportedNic
from agents.rank_network.facts import NodeNetworkFacts
from agents.runtime.base import RuntimeFailure
from agents.runtime.grants import Grant, GrantProvider
from agents.workspace.folders import IN_CONTAINER, ReplicaFolders

DEVICES = Path("/dev/infiniband")
# By which connections between devices are made.
MANAGER = "rdma_cm"


def with_rank_network(
    inner: GrantProvider,
    facts: Callable[[], NodeNetworkFacts],
    runtime: RuntimeKind,
    sysfs: Path,
    folders: Callable[[str], ReplicaFolders],
    devices: Path = DEVICES,
) -> GrantProvider:
    """What `inner` grants, and what the ranks need to reach each other. The provider raises
    RuntimeFailure. `folders`: of a plain process, by its replica; `devices`: of the host."""

    def grant(replica: DesiredReplica, uuids: Sequence[str]) -> Grant:
        granted, node = inner(replica, uuids), facts()
        is_process = runtime is RuntimeKind.PROCESS
        output = (folders(replica.id) if is_process else IN_CONTAINER).output
        place = RankPlace.of_replica(
            replica, node.network, node.topology, node.gpu_indexes, str(output)
        )
        granted = replace(granted, env=rank_environment(place) | granted.env)
        if not place.uses_rdma:
            return granted
        if not place.rails:
            why = Message("no RDMA device of its GPUs is up on this node")
            raise RuntimeFailure("rdma", why.text, why)
        nodes = device_nodes(place.rails, sysfs, devices)
        return replace(granted, devices=nodes, locks_memory=True)

    return grant


def device_nodes(
    rails: Sequence[ReportedNic], sysfs: Path, devices: Path = DEVICES
) -> tuple[str, ...]:
    """The device nodes of these cards that this host has: a simulated card has none."""
    names = [MANAGER]
    for nic in rails:
        verbs = sysfs / "class" / "infiniband" / nic.name / "device" / "infiniband_verbs"
        names += sorted(node.name for node in verbs.glob("uverbs*"))
    return tuple(str(devices / name) for name in names if (devices / name).exists())
