"""The networks of gangs as their nodes get them: in desired documents."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from agents.contract.codec import decode
from agents.contract.container_names import container_name
from agents.contract.gang_network import GangNetwork, GangPeer, NodeOverlay, OverlayKind
from portal.gang_networks.models import AttemptNetwork
from portal.gang_networks.selectors import network_of
from portal.gang_networks.subnets import rank_address
from portal.jobs.models import Replica

_COLUMNS = (
    *("attempt_id", "rank", "attempt__number", "attempt__job__uid"),
    *("node__facts__address", "node__facts__overlay"),
)


def desired_networks(replicas: Iterable[Replica]) -> Mapping[UUID, GangNetwork]:
    """By replica, of those whose attempt was read with a network. Nothing is asked where there is
    none; else one query."""
    joined = [(row, network) for row in replicas if (network := network_of(row.attempt))]
    peers = _peers({network.attempt_id: network for _, network in joined}.values())
    return {
        row.pk: GangNetwork(
            id=network.number,
            kind=OverlayKind(network.kind),
            subnet=network.subnet,
            address=network.rank_address(row.rank),
            mtu=network.mtu,
            peers=peers.get(network.attempt_id, ()),
        )
        for row, network in joined
    }


def _peers(networks: Collection[AttemptNetwork]) -> Mapping[int, tuple[GangPeer, ...]]:
    """By attempt, all of its ranks and how their nodes say they are reached now.

    A node that can be reached no more is left out.
    """
    if not networks:
        return {}
    subnets = {network.attempt_id: network.addresses for network in networks}
    found: dict[int, list[GangPeer]] = defaultdict(list)
    rows = Replica.objects.filter(attempt__in=list(subnets)).order_by("attempt_id", "rank")
    for attempt, rank, number, job, address, overlay in rows.values_list(*_COLUMNS):
        if address and overlay:
            offer = decode(NodeOverlay, overlay)
            found[attempt].append(
                GangPeer(
                    rank=rank,
                    hostname=container_name(str(job), number, rank),
                    address=str(rank_address(subnets[attempt], rank)),
                    node_address=address,
                    port=offer.port,
                    public_key=offer.public_key,
                )
            )
    return {attempt: tuple(peers) for attempt, peers in found.items()}
