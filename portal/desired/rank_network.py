"""What the collective libraries of an attempt's replicas are told: by the function with which their
nodes set it, from what these report now."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agents.collectives.place import RankPlace
from agents.collectives.variables import RankVariable, rank_variables
from agents.contract.codec import decode
from agents.contract.documents import DesiredReplica, RuntimeKind
from agents.contract.errors import ContractError
from agents.contract.rank_network import NoRdma, RankNetwork, RdmaUse
from agents.contract.topology import NodeTopology
from portal.accounts.models import User
from portal.allocations.models import Allocation
from portal.desired.documents import device_of
from portal.desired.rdma import attempts_with_rdma
from portal.gang_networks.ranks import gang_ranks
from portal.inventory.models import Node
from portal.jobs.models import Attempt, Job
from portal.jobs.selectors import readable_request
from scheduler.core.request import JobRequest, parse_stored_request

# The output folder in a container, and as a plain process finds its own.
OUTPUT = {RuntimeKind.DOCKER: "/output", RuntimeKind.PROCESS: "$TESSERA_OUTPUT_DIR"}


@dataclass(frozen=True, slots=True)
class RanksNetwork:
    """Replicas that are told the same, and their nodes."""

    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    variables: tuple[RankVariable, ...]


def rank_networks(user: User, job: Job, attempt: Attempt) -> tuple[RanksNetwork, ...]:
    """Of an attempt from `attempts_of`, as this user may read it. One query for a gang, else none.

    Without replicas whose nodes are gone or do not report their network, or that are told nothing.
    """
    placed = {row: tuple(row.allocations.all()) for row in attempt.replicas.all()}
    placed = {row: devices for row, devices in placed.items() if row.node and devices}
    request = parse_stored_request(readable_request(user, job))
    ranks = gang_ranks([attempt.pk] if placed and attempt.world > 1 else [])
    with_rdma = attempt.pk in attempts_with_rdma(placed.values(), ranks)
    found: dict[str, RanksNetwork] = {}
    for row, devices in placed.items():
        replica = DesiredReplica(
            id=str(row.pk),
            job=str(job.uid),
            rank=row.rank,
            world=attempt.world,
            devices=tuple(map(device_of, devices)),
            processes=request.processes * attempt.joined_replicas,
            backend=request.backend,
            env=dict(request.env),
            rdma=with_rdma,
        )
        if row.node and (told := _variables(row.node, devices, replica, request)):
            one = found.setdefault(repr(told), RanksNetwork((), (), told))
            nodes = dict.fromkeys((*one.nodes, row.node.name))
            found[repr(told)] = replace(one, ranks=(*one.ranks, row.rank), nodes=tuple(nodes))
    return tuple(found.values())


def _variables(
    node: Node, devices: Sequence[Allocation], replica: DesiredReplica, request: JobRequest
) -> tuple[RankVariable, ...]:
    try:
        network = decode(RankNetwork, node.facts.get("rank_network"))
        topology = decode(NodeTopology, node.topology)
    except ContractError:  # Not reported, or by another version.
        return ()
    indexes = {row.own_slice.gpu.uuid: row.own_slice.gpu.index for row in devices}
    output = OUTPUT[RuntimeKind(node.facts.get("runtime", RuntimeKind.DOCKER))]
    place = RankPlace.of_replica(replica, network, topology, indexes, output)
    return rank_variables(place, _no_rdma(network, request))


def _no_rdma(network: RankNetwork, request: JobRequest) -> str:
    """Why a gang that uses no RDMA does not, on this node."""
    if request.rdma is RdmaUse.OFF:
        return NoRdma.REQUEST
    return network.no_rdma or NoRdma.OTHER_NODE
