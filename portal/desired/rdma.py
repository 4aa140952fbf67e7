"""Which gangs use RDMA: all of their nodes offer the same, or their requests insist on it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from agents.contract.documents import CollectiveBackend, SliceKind
from agents.contract.rank_network import RdmaUse
from portal.allocations.models import Allocation
from portal.jobs.models import Replica


def attempts_with_rdma(devices: Iterable[Sequence[Allocation]]) -> frozenset[int]:
    """Of these replicas, each with its devices. Nothing is asked unless one is of a gang with NCCL
    on whole GPUs.

    All ranks have to agree, so a gang that may use it does so only where every node offers it. One
    that has to was placed on such nodes; a node that offers none any more refuses its replica."""
    wishes = {rows[0].replica.attempt_id: _rdma_use(rows) for rows in devices}
    found = {attempt for attempt, use in wishes.items() if use is RdmaUse.ON}
    able = [attempt for attempt, use in wishes.items() if use is RdmaUse.AUTO]
    layers: dict[int, set[str]] = defaultdict(set)
    if able:
        ranks = Replica.objects.filter(attempt__in=able)
        for attempt, layer in ranks.values_list("attempt_id", "node__facts__rdma"):
            layers[attempt].add(layer or "")
    found |= {attempt for attempt, seen in layers.items() if len(seen) == 1 and "" not in seen}
    return frozenset(found)


def _rdma_use(devices: Sequence[Allocation]) -> RdmaUse:
    """Of a replica with these devices; off where no collective library would use RDMA."""
    job = devices[0].replica.attempt.job
    is_gloo = job.request.get("backend") == CollectiveBackend.GLOO
    is_whole = all(row.own_slice.kind == SliceKind.GPU for row in devices)
    if job.replica_count < 2 or is_gloo or not is_whole:
        return RdmaUse.OFF
    return RdmaUse(job.request.get("rdma", RdmaUse.AUTO))
