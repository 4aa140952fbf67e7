"""The site of Tessera's own nodes: the planner places, node agents carry out desired documents.

Nodes report by themselves (`portal/agentapi/node_report.py`); only silent nodes are found here.
"""

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from agents.contract.documents import SliceKind
from agents.contract.lease import DEFAULT as DEFAULT_LEASE_END
from agents.contract.lease import LeaseEnd, seconds_until_over
from agents.contract.message import Message
from portal.audit.codes import EventCode
from portal.audit.transitions import StaleStatusError, advance
from portal.desired.services import lagging_nodes, nodes_drive
from portal.inventory.boards import cluster_boards
from portal.inventory.contact import longest_pause
from portal.inventory.models import Node
from portal.jobs.models import OWN_NODES, Replica
from portal.live.bell import ring, ring_drive
from portal.sites.observations import Observation
from scheduler.commit.placements import placements_commit
from scheduler.core.model.decisions import JobPlacement
from scheduler.core.model.states import NodeStatus, ReplicaStatus
from scheduler.core.request import parse_stored_request
from scheduler.sites.base import SiteCapabilities, SiteReport
from scheduler.unsettled import nodes_in_turn, unheard_nodes, unsettled_nodes

# Requests limit the size of a gang, not the site.
MAX_REPLICAS = 10_000


class OwnNodes:
    name = OWN_NODES

    def capabilities(self) -> SiteCapabilities:
        boards = frozenset(board.key for board in cluster_boards())
        return SiteCapabilities(boards, frozenset(SliceKind), MAX_REPLICAS)

    def begin(self, placement: JobPlacement, bypassed: tuple[str, ...] = ()) -> bool:
        return bool(placements_commit([placement], bypassed))

    def drive(self, attempts: Collection[int] | None = None) -> None:
        """Of all attempts: by a bell for each node that lags behind, also for nodes without any,
        whose partitions change too. In a burst most nodes may lag behind, and hardly one does: a
        task for each of them would keep a worker from planning, and reports from their rows."""
        if attempts is None:
            lagging = lagging_nodes(unsettled_nodes() | nodes_in_turn())
            ring_drive(sorted(lagging), repeat=True)
            unheard_nodes_ring()
            return
        rows = Replica.objects.filter(attempt__in=attempts, node__isnull=False).order_by("node_id")
        self.drive_nodes(frozenset(rows.values_list("node_id", flat=True)))

    def drive_nodes(self, nodes: Collection[UUID]) -> None:
        nodes_drive(node_ids=nodes)

    def observe(self, now: datetime) -> SiteReport:
        _nodes_judge(now)
        unreachable = (
            Replica.objects.live()
            .on_silent_nodes()
            .order_by("pk")
            .values_list("attempt_id", "node__name")
        )
        return SiteReport(tuple(_stranded(now)), dict(unreachable))

    def release(self) -> bool:
        """Each node's report marks the devices of what is gone there."""
        return False


def unheard_nodes_ring() -> None:
    """Ring again each node that may not have heard of its document: at an open call, it would else
    learn of it when that ends."""
    if nodes := unheard_nodes():
        # In one message.
        with transaction.atomic():
            for pk in sorted(nodes):
                ring(f"node:{pk}")


def _nodes_judge(now: datetime) -> None:
    """Mark silent nodes as unreachable, later as lost; neither gets work."""
    knobs = settings.PLATFORM
    silent = now - longest_pause()
    gone = now - timedelta(seconds=knobs.lost_seconds + knobs.hold_seconds)
    judged = [NodeStatus.ONLINE, NodeStatus.UNREACHABLE]
    for node in Node.objects.filter(status__in=judged, last_seen_at__lt=silent):
        last_contact = node.last_seen_at or gone
        to = NodeStatus.LOST if last_contact <= gone else NodeStatus.UNREACHABLE
        if node.status == to:
            continue
        message = Message("last contact at %(time)s", time=f"{last_contact:%H:%M:%S}")
        try:
            advance(node, to, code=EventCode.SILENT, message=message)
        except StaleStatusError:
            # It has reported, or was retired, meanwhile: judged by the next sweep.
            continue
        ring("cluster")


def _stranded(now: datetime) -> Iterator[Observation]:
    """Replicas of a lost node, once its agent must have stopped them by itself: its lease, their
    own grace period and a margin have passed. None of a node that may keep them running, unless an
    admin has revoked its key: whatever it runs then counts for nothing."""
    # Others need not be read: by the rule below, theirs never count as ended.
    stops = Q(node__facts__on_lease_end=str(LeaseEnd.STOP)) | Q(node__revoked_at__isnull=False)
    lost = Replica.objects.live().filter(node__status=NodeStatus.LOST, node__lease_until__lt=now)
    ended = lost.filter(stops).select_related("node", "attempt__job")
    for replica in ended.defer("node__desired", "node__topology"):
        if not _has_certainly_ended(replica, now):
            continue
        yield Observation(
            replica=replica.pk,
            fence=replica.attempt_id,
            status=ReplicaStatus.LOST,
            code=EventCode.NODE_LOST,
            message=Message(
                "no contact with %(node)s until its lease expired", node=str(replica.node)
            ),
        )


def _has_certainly_ended(replica: Replica, now: datetime) -> bool:
    knobs, node = settings.PLATFORM, replica.node
    if node is None or node.lease_until is None:
        return False
    reported = node.facts.get("on_lease_end", DEFAULT_LEASE_END)
    seconds = seconds_until_over(
        LeaseEnd.STOP if node.revoked_at else reported,
        grace_seconds=parse_stored_request(replica.attempt.job.request).grace_seconds,
        kill_seconds=knobs.kill_grace_seconds,
        margin_seconds=knobs.lease_margin_seconds,
    )
    return seconds is not None and node.lease_until + timedelta(seconds=seconds) < now
