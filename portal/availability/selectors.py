"""What is free now, for one user: the planner's own count, published or made here."""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from portal.accounts.models import User
from portal.accounts.selectors import projects_to_work_in
from portal.availability.published import published_counts
from portal.planning.snapshot_cache import current_snapshot
from scheduler.core.availability.cluster import ClusterAvailability, NodeAvailability
from scheduler.core.availability.counts import MPS_SHARE, Availability, DeviceCount


def availability_for(user: User, *, projects: Collection[str] | None = None) -> ClusterAvailability:
    """The whole cluster. Room beside MPS shares counts for projects that the user works in; nothing
    says who holds what. `projects`: the slugs of those, where the caller has them."""
    cluster = published_counts() or current_snapshot().availability
    if not cluster.share_room:
        return cluster
    if projects is None:
        projects = set(projects_to_work_in(user).values_list("slug", flat=True))
    room = Counter({key: n for key, n in cluster.share_room.items() if key[0] in projects})
    return _with_share_room(cluster, room)


def _with_share_room(
    cluster: ClusterAvailability, room: Counter[tuple[str, str, str]]
) -> ClusterAvailability:
    """A copy in which GPUs with room for a share of one's own projects are ready for shares."""
    boards, nodes = dict(cluster.boards), dict(cluster.nodes)
    for (_project, board, node), count in room.items():
        boards[board] = _with_ready_shares(boards[board], count)
        of_node = nodes[node].boards
        nodes[node] = NodeAvailability(of_node | {board: _with_ready_shares(of_node[board], count)})
    total = _with_ready_shares(cluster.total, room.total())
    return replace(cluster, boards=boards, nodes=nodes, share_room=room, total=total)


def _with_ready_shares(counts: Availability, gpus: int) -> Availability:
    shares = replace(counts.of(MPS_SHARE))
    shares.add(DeviceCount(ready=gpus))
    return replace(counts, devices=counts.devices | {MPS_SHARE: shares})
