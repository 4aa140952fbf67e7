"""A node that holds back: it runs replicas that its desired document does not name.

That is the case after an older database was restored, or if a document is wrongly empty. The node
gets no document until an admin has allowed what it would end, and no new work until that has ended.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agents.contract.documents import ObservedDocument, ObservedReplica, ReplicaState
from agents.contract.message import Message
from portal.audit.codes import AuditAction, EventCode
from portal.audit.transitions import event_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.inventory.models import Node
from portal.inventory.services import lock_active_node, node_audit, ring_node
from portal.jobs.holds import jobs_hold_for_node, jobs_release_for_node
from portal.jobs.models import Job, Replica
from portal.live.bell import ring_drive
from scheduler.core.model.states import ReplicaStatus

LIVE = frozenset({ReplicaState.PREPARING, ReplicaState.READY, ReplicaState.RUNNING})
# What a node was about to do, or did, when the database was saved.
BEGUN = [ReplicaStatus.PREPARING, ReplicaStatus.READY, ReplicaStatus.RUNNING]
# No node gets that far: a larger number is a mistake of the node.
MAX_REVISION = 2**53


@dataclass(frozen=True, slots=True)
class HeldReplica:
    """A replica on a node that its desired document would end."""

    replica: str
    job: str
    """The uid of the job: the portal may not know the job."""
    attempt: int
    rank: int
    state: str
    label: str = ""
    """Such as "J-12"; empty for a job that the portal does not know."""


def holding_compare(
    node: Node, observed: ObservedDocument, *, applied_revision: int
) -> list[Replica]:
    """Compare what a node runs with its document, and begin or end its holding back.

    The caller has locked the node and is in a transaction. Returns the replicas that ran when a
    restored database was saved, and of which the node has nothing left.
    """
    if node.restored_at is None and node.holding_since is None:
        _end_allowance(node, applied_revision)
        return []
    listed = {replica["id"] for replica in node.desired.get("replicas", ())}
    unlisted = [r for r in observed.replicas if r.id not in listed and r.state in LIVE]
    ended = _ended(node, observed) if node.restored_at else []
    _pass_revision(node, applied_revision)
    if unlisted:
        _hold(node, unlisted)
    else:
        _agree(node)
    return ended


def node_suspect(node: Node) -> tuple[str, ...]:
    """The node has applied a revision that the portal never issued: the database is older than the
    node. Returns the changed columns, which the caller saves."""
    if node.restored_at is not None or node.holding_since is not None:
        return ()
    node.restored_at = timezone.now()
    return ("restored_at",)


def node_refuses(node: Node) -> tuple[str, ...]:
    """The agent has refused its document. Returns the changed columns, which the caller saves."""
    if node.holding_since is not None:
        return ()
    _begin(node)
    return ("holding_since",)


def held_replicas(node: Node) -> list[HeldReplica]:
    """What the node's document would end, with the labels of the jobs that the portal knows."""
    rows = [HeldReplica(**row) for row in node.held_replicas]
    jobs = Job.objects.filter(uid__in=_uids(row.job for row in rows))
    labels = {str(job.uid): job.label for job in jobs}
    return [HeldReplica(**asdict(row) | {"label": labels.get(row.job, "")}) for row in rows]


def node_allow_mass_removal(
    *, node: Node, actor: str, shown: Collection[str] | None = None
) -> Node:
    """Let the node end what its document does not name.

    `shown`: ids of the replicas that the admin has seen. Raises Refused(version_stale) if the node
    reports other replicas by now, and Refused(node_retired).
    """
    with transaction.atomic():
        node = lock_active_node(node)
        if shown is not None and set(shown) != {row["replica"] for row in node.held_replicas}:
            sentence = "What this node would end has changed. Read it again"
            raise Refused(ErrorCode.VERSION_STALE, sentence)
        node.allow_mass_removal = True
        node.drive_due = True
        node.save(update_fields=["allow_mass_removal", "drive_due"])
        event_record(
            node,
            EventCode.MASS_REMOVAL_ALLOWED,
            Message("%(user)s allowed the removal of most work", user=actor),
            actor=actor,
            data={"replicas": node.held_replicas},
        )
        after = {"replicas": [row["replica"] for row in node.held_replicas]}
        node_audit(node, AuditAction.NODE_ALLOW_MASS_REMOVAL, actor=actor, after=after)
        ring_node(node)
        ring_drive([node.pk])
    return node


def _hold(node: Node, unlisted: list[ObservedReplica]) -> None:
    rows: list[dict[str, Any]] = [
        asdict(HeldReplica(r.id, r.job, r.attempt, r.rank, str(r.state)))
        for r in sorted(unlisted, key=lambda r: (r.job, r.rank))
    ]
    if node.holding_since is None:
        _begin(node)
    node.restored_at, node.held_replicas = None, rows
    node.save(update_fields=["restored_at", "holding_since", "held_replicas"])
    jobs_hold_for_node(_uids(r.job for r in unlisted), node_name=node.name)


def _begin(node: Node) -> None:
    node.holding_since = timezone.now()
    message = Message("%(node)s runs work that the portal does not know", node=node.name)
    event_record(node, EventCode.NODE_HOLDING, message, actor=f"node:{node.name}")
    ring_node(node)


def _agree(node: Node) -> None:
    """The node runs nothing that its document does not name."""
    if node.holding_since is not None:
        message = Message("%(node)s runs only what the portal knows", node=node.name)
        event_record(node, EventCode.NODE_HOLDING_ENDED, message, actor=f"node:{node.name}")
    node.restored_at, node.holding_since, node.held_replicas = None, None, []
    node.allow_mass_removal, node.drive_due = False, True
    columns = ["restored_at", "holding_since", "held_replicas", "allow_mass_removal", "drive_due"]
    node.save(update_fields=columns)
    jobs_release_for_node(node_name=node.name)
    ring_node(node)
    ring_drive([node.pk])


def _end_allowance(node: Node, applied_revision: int) -> None:
    """What an admin allows is allowed once."""
    if not node.allow_mass_removal or applied_revision != node.revision:
        return
    if node.desired.get("allow_mass_removal"):
        node.allow_mass_removal, node.drive_due = False, True
        node.save(update_fields=["allow_mass_removal", "drive_due"])


def _pass_revision(node: Node, applied_revision: int) -> None:
    """The next document has a number that the node has never seen."""
    is_next = node.restored_at is not None or applied_revision > node.revision
    if not is_next or applied_revision > MAX_REVISION:
        return
    node.revision = max(node.revision, applied_revision) + 1
    if node.desired:
        node.desired = node.desired | {"revision": node.revision}
    node.save(update_fields=["revision", "desired"])


def _ended(node: Node, observed: ObservedDocument) -> list[Replica]:
    seen = {replica.id for replica in observed.replicas}
    rows = Replica.objects.filter(node=node, status__in=BEGUN).select_related("attempt")
    return [row for row in rows if str(row.pk) not in seen]


def _uids(texts: Iterable[str]) -> set[UUID]:
    """Those that can be uids of jobs."""
    uids = set[UUID]()
    for text in texts:
        with suppress(ValueError):
            uids.add(UUID(text))
    return uids
