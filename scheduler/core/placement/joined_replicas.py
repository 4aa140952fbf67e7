"""Replicas of a gang on one node that run as one, in one container with the devices and the
processes of all: NCCL then reaches them by NVLink and shared memory. Pure.

The placement decides it, once for each attempt. A program under a launcher that may join sees the
same world either way, only with fewer nodes: `docs/decisions/0023-joined-replicas.md`.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import gcd
from typing import Protocol

from agents.contract.launcher_names import LauncherName
from agents.contract.replica_limits import MAX_PROCESSES
from agents.launchers.registry import LAUNCHERS
from scheduler.core.model.decisions import ReplicaPlacement
from scheduler.core.model.snapshot import DeviceRequest


class GangRequest(Protocol):
    """What of a request decides; a waiting job has it, too."""

    @property
    def launcher(self) -> LauncherName: ...
    @property
    def device(self) -> DeviceRequest: ...
    @property
    def replicas(self) -> int: ...
    @property
    def processes(self) -> int: ...


def may_join(gang: GangRequest) -> bool:
    """Whether replicas on one node can be one: they are several, and each has one process for each
    of its whole GPUs, under a launcher by which a process finds its own."""
    has_gpu_each = gang.device.gpus > 0 and gang.processes == gang.device.gpus
    return gang.replicas > 1 and has_gpu_each and LAUNCHERS[gang.launcher].joins_replicas


def joined_count(gang: GangRequest, nodes: Sequence[str]) -> int:
    """How many replicas each container runs: the most that divides the number of replicas of every
    node, so that all containers have the same. 1 if they cannot be joined. `nodes`: of each
    replica."""
    if not may_join(gang):
        return 1
    shared = gcd(*Counter(nodes).values())
    most = min(shared, MAX_PROCESSES // gang.processes)
    return next(count for count in range(most, 0, -1) if shared % count == 0)


def container_ranks(nodes: Sequence[str], joined: int) -> list[list[int]]:
    """The replicas of each container, given the node of each replica. A node comes where its first
    replica does, so rank 0 stays where it is."""
    by_node: dict[str, list[int]] = defaultdict(list)
    for rank, node in enumerate(nodes):
        by_node[node].append(rank)
    return [
        ranks[first : first + joined]
        for ranks in by_node.values()
        for first in range(0, len(ranks), joined)
    ]


def joined_placement(
    replicas: Sequence[ReplicaPlacement], joined: int
) -> tuple[ReplicaPlacement, ...]:
    """The containers, each with the devices of its replicas; by their own rank."""
    in_order = sorted(replicas, key=lambda each: each.rank)
    if joined == 1:
        return tuple(in_order)
    containers = container_ranks([each.node for each in in_order], joined)
    return tuple(
        ReplicaPlacement(
            rank,
            in_order[own[0]].node,
            tuple(device for each in own for device in in_order[each].devices),
        )
        for rank, own in enumerate(containers)
    )


def separate_replicas(container: ReplicaPlacement, joined: int) -> tuple[ReplicaPlacement, ...]:
    """The replicas of a container, as the planner places them: which devices each has means
    nothing, since they are whole GPUs of one node."""
    if joined == 1:
        return (container,)
    each = -(-len(container.devices) // joined)
    first = container.rank * joined
    return tuple(
        ReplicaPlacement(
            first + at, container.node, container.devices[at * each : at * each + each]
        )
        for at in range(joined)
    )
