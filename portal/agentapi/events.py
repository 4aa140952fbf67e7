"""Events of nodes: each stored once, in order, at a rate.

The level of a node's bucket is in its row, which a report locks anyway: all web processes share it.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.utils import timezone

from agents.contract.calls import AgentEvent
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.message import Message
from portal.audit.codes import EventCode
from portal.audit.models import Event
from portal.audit.transitions import event_record
from portal.inventory.models import Node
from portal.jobs.models import Replica
from portal.token_buckets import BucketRate

# The largest number that a BIGINT column holds.
LARGEST = 2**63 - 1
# A replica has about four events in its life. The burst covers a node that was out of contact for a
# day; the rate is that of a new replica every four seconds.
EVENTS = BucketRate(burst=2_000, per_second=1)
# The history records dropped events at most this often.
DROP_NOTICE_INTERVAL = timedelta(minutes=1)


def events_append(node: Node, events: Iterable[AgentEvent]) -> tuple[str, ...]:
    """Store each event once, in order; those up to `acked_seq` are stored already. Events beyond
    the rate are dropped and counted. Returns the changed columns.

    The caller has locked the node, and saves those columns.
    """
    fresh: dict[int, AgentEvent] = {}
    for event in sorted(events, key=lambda e: e.seq):
        if event.seq > LARGEST:
            raise ContractError(ContractErrorCode.INVALID_FIELD, f"at most {LARGEST}", "events.seq")
        if event.seq > node.acked_seq:
            fresh.setdefault(event.seq, event)
    if not fresh:
        return ()
    now = timezone.now()
    kept = list(fresh.values())[: _allowed(node, len(fresh), now)]
    replicas = _replicas(node, kept)
    Event.objects.bulk_create(_row(node, event, replicas, now) for event in kept)
    _drop(node, len(fresh) - len(kept), now)
    node.acked_seq = max(fresh)
    return ("acked_seq", "event_level", "event_level_at", "events_dropped", "events_dropped_at")


def _allowed(node: Node, count: int, now: datetime) -> int:
    """How many of `count` events may be stored now; they are taken from the node's bucket."""
    level = float(EVENTS.burst)
    if node.event_level is not None and node.event_level_at is not None:
        seconds = (now - node.event_level_at).total_seconds()
        level = EVENTS.level(node.event_level, seconds)
    allowed = min(count, int(level))
    node.event_level, node.event_level_at = level - allowed, now
    return allowed


def _drop(node: Node, count: int, now: datetime) -> None:
    if not count:
        return
    node.events_dropped += count
    last = node.events_dropped_at
    if last is not None and now - last < DROP_NOTICE_INTERVAL:
        return
    node.events_dropped_at = now
    message = Message(
        "%(node)s reports more events than are stored: some are dropped", node=node.name
    )
    event_record(node, EventCode.EVENTS_DROPPED, message, actor=f"node:{node.name}")


def _replicas(node: Node, events: Iterable[AgentEvent]) -> dict[str, Replica]:
    """By id: the node's own replicas that the events are about."""
    ids = set()
    for event in events:
        try:
            ids.add(UUID(event.replica))
        except ValueError:
            continue
    rows = Replica.objects.filter(node=node, pk__in=ids).select_related("attempt__job")
    return {str(row.pk): row for row in rows}


def _row(node: Node, event: AgentEvent, replicas: dict[str, Replica], now: datetime) -> Event:
    """The node's clock is advisory: its time is kept in the data, ours orders the history."""
    replica = replicas.get(event.replica)
    job = replica.attempt.job if replica else None
    return Event(
        at=now,
        noun="replica" if replica else "node",
        noun_id=str(replica.pk if replica else node.pk),
        job=job,
        project_id=job.project_id if job else None,
        node=node,
        code=str(event.type),
        sentence=event.sentence,
        actor=f"node:{node.name}",
        data=event.data | {"seq": str(event.seq), "node_time": event.at, "fence": str(event.fence)},
    )
