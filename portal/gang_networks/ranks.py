"""The ranks of gangs, and what their nodes report now: all that the documents of the others say of
them, in one statement."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agents.contract.codec import decode_leniently
from agents.contract.gang_network import NodeOverlay
from portal.jobs.models import Replica

_COLUMNS = (
    *("attempt_id", "rank", "address", "port"),
    *("node__facts__address", "node__facts__overlay", "node__facts__rdma"),
)


@dataclass(frozen=True, slots=True)
class GangRank:
    """One rank of a gang."""

    rank: int
    # Where it listens if the gang meets at it, as its node reports it; empty before.
    address: str
    port: int | None
    # Of its node, for other nodes; empty if it is not known.
    node_address: str
    # None where its node joins no networks of gangs.
    overlay: NodeOverlay | None
    # The link layer of the RDMA devices that its node offers; empty for none.
    rdma: str


def gang_ranks(attempts: Iterable[int]) -> Mapping[int, tuple[GangRank, ...]]:
    """By attempt, in order. Nothing is asked where there are none."""
    wanted = set(attempts)
    if not wanted:
        return {}
    found: dict[int, list[GangRank]] = defaultdict(list)
    rows = Replica.objects.filter(attempt__in=wanted).order_by("attempt_id", "rank")
    for attempt, rank, address, port, node_address, overlay, rdma in rows.values_list(*_COLUMNS):
        # A portal of another version may have stored it.
        offer = decode_leniently(NodeOverlay, overlay)[0] if overlay else None
        found[attempt].append(GangRank(rank, address, port, node_address or "", offer, rdma or ""))
    return {attempt: tuple(ranks) for attempt, ranks in found.items()}
