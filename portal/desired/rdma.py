"""Which gangs use RDMA: all of their nodes offer the same, or their requests insist on it."""

from collections.abc import Iterable, Mapping, Sequence

from agents.contract.documents import CollectiveBackend, SliceKind
from agents.contract.rank_network import RdmaUse
from portal.allocations.models import Allocation
from portal.gang_networks.ranks import GangRank


def attempts_with_rdma(
    devices: Iterable[Sequence[Allocation]], ranks: Mapping[int, Sequence[GangRank]]
) -> frozenset[int]:
    """Of these replicas, each with its devices. `ranks`: by attempt, those of gangs.

    All ranks have to agree, so a gang that may use it does so only where every node offers it. One
    that has to was placed on such nodes; a node that offers none any more refuses its replica."""
    wishes = {rows[0].replica.attempt_id: _rdma_use(rows) for rows in devices}
    return frozenset(
        attempt
        for attempt, use in wishes.items()
        if use is RdmaUse.ON or (use is RdmaUse.AUTO and _is_offered_alike(ranks.get(attempt, ())))
    )


def _is_offered_alike(ranks: Iterable[GangRank]) -> bool:
    layers = {each.rdma for each in ranks}
    return len(layers) == 1 and "" not in layers


def _rdma_use(devices: Sequence[Allocation]) -> RdmaUse:
    """Of a replica with these devices; off where no collective library would use RDMA."""
    attempt = devices[0].replica.attempt
    job = attempt.job
    is_gloo = job.request.get("backend") == CollectiveBackend.GLOO
    is_whole = all(row.own_slice.kind == SliceKind.GPU for row in devices)
    if attempt.world < 2 or is_gloo or not is_whole:
        return RdmaUse.OFF
    return RdmaUse(job.request.get("rdma", RdmaUse.AUTO))
