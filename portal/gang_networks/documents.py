"""The networks of gangs as their nodes get them: in desired documents."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from uuid import UUID

from agents.contract.container_names import container_name
from agents.contract.egress import EgressPolicy
from agents.contract.gang_network import GangNetwork, GangPeer, OverlayKind
from portal.gang_networks.models import AttemptNetwork
from portal.gang_networks.ranks import GangRank
from portal.gang_networks.selectors import network_of
from portal.jobs.models import Attempt, Replica


def desired_networks(
    replicas: Iterable[Replica], ranks: Mapping[int, Sequence[GangRank]]
) -> Mapping[UUID, GangNetwork]:
    """By replica, of those whose attempt was read with a network. `ranks`: by attempt, of these."""
    joined = [(row, network) for row in replicas if (network := network_of(row.attempt))]
    attempts = {row.attempt_id: (row.attempt, network) for row, network in joined}
    peers = {pk: tuple(_peers(*one, ranks.get(pk, ()))) for pk, one in attempts.items()}
    return {
        row.pk: GangNetwork(
            id=network.number,
            kind=OverlayKind(network.kind),
            subnet=network.subnet,
            address=network.rank_address(row.rank),
            mtu=network.mtu,
            peers=peers[row.attempt_id],
            egress=EgressPolicy(row.attempt.egress),
        )
        for row, network in joined
    }


def _peers(
    attempt: Attempt, network: AttemptNetwork, ranks: Iterable[GangRank]
) -> Iterator[GangPeer]:
    """How their nodes say they are reached now; one that can be reached no more is left out."""
    for each in ranks:
        if each.node_address and each.overlay:
            yield GangPeer(
                rank=each.rank,
                hostname=container_name(str(attempt.job.uid), attempt.number, each.rank),
                address=network.rank_address(each.rank),
                node_address=each.node_address,
                port=each.overlay.port,
                public_key=each.overlay.public_key,
            )
