"""The state of the cluster: one cheap, bounded read of the database, and one of the broker."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction
from django.db.models import Count, DurationField, ExpressionWrapper, F, Min, Q
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Now
from django.utils import timezone
from kombu.exceptions import OperationalError

from portal.allocations.models import Allocation
from portal.celery import app
from portal.inventory.models import Gpu, Node
from portal.jobs.models import Job
from portal.jobs.querysets import values_of
from portal.leases.models import TaskLease
from portal.task_queues import NAMES
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.states import (
    ALLOCATION_LIVE,
    JOB_FINAL,
    JOB_WAITING,
    NODE_SILENT,
    JobStatus,
    NodeStatus,
)

# PostgreSQL ends a statement that takes longer.
STATEMENT_MS = 3_000
# The broker is not waited for longer.
CONNECT_SECONDS = 1.0
# Rounds of other sites have names that admins choose.
SITE_LEASES = "site:"
NO_REASON = "none"
# By name, so that an alert can say which; a cluster with more of them has another problem.
MAX_NAMED_NODES = 100


@dataclass(frozen=True, slots=True)
class ClusterCounts:
    """What there is at one moment."""

    round_ages: Mapping[str, float]
    """Seconds since each kind of work was last completed, by the name of its lease."""
    jobs: Mapping[str, int]
    """By status, without those that have ended."""
    waiting: Mapping[str, int]
    """By code of the reason."""
    oldest_queued_seconds: float
    nodes: Mapping[str, int]
    """By status."""
    cordoned: int
    holding: int
    troubled: tuple[tuple[str, str], ...]
    """Names of nodes that are silent or hold back, and which of both; at most MAX_NAMED_NODES."""
    gpus: Mapping[str, int]
    """By health, on nodes that are not retired."""
    allocations: Mapping[str, int]
    """By status, those that are live."""


def cluster_counts(now: datetime | None = None) -> ClusterCounts:
    """Six statements, whatever there is. Raises DatabaseError if one takes longer than 3 s."""
    now = now or timezone.now()
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT set_config('statement_timeout', %s, true)", [str(STATEMENT_MS)]
                )
        return _counts(now)


def _counts(now: datetime) -> ClusterCounts:
    unended = Job.objects.exclude(status__in=values_of(JOB_FINAL))
    jobs = list(
        unended.order_by()
        .annotate(code=KeyTextTransform("code", "reason"))
        .values_list("status", "code")
        .annotate(n=Count("pk"), oldest=Min("queued_at"))
    )
    waiting = [row for row in jobs if row[0] in values_of(JOB_WAITING)]
    oldest = min((row[3] for row in jobs if row[0] == JobStatus.QUEUED and row[3]), default=now)
    nodes = list(
        Node.objects.order_by()
        .values_list("status")
        .annotate(
            n=Count("pk"),
            holding=Count("pk", filter=Q(holding_since__isnull=False)),
            cordoned=Count("pk", filter=Q(schedulable=False)),
        )
    )
    active = [row for row in nodes if row[0] != NodeStatus.RETIRED]
    gpus = Gpu.objects.filter(node__in=Node.objects.active()).order_by()
    live = Allocation.objects.filter(status__in=values_of(ALLOCATION_LIVE)).order_by()
    return ClusterCounts(
        round_ages=_round_ages(),
        jobs=_sums((row[0], row[2]) for row in jobs),
        waiting=_sums((_reason(row[1]), row[2]) for row in waiting),
        oldest_queued_seconds=max(0.0, (now - oldest).total_seconds()),
        nodes={row[0]: row[1] for row in nodes},
        cordoned=sum(row[3] for row in active),
        holding=sum(row[2] for row in active),
        troubled=tuple(_troubled()),
        gpus=dict(gpus.values_list("health").annotate(n=Count("pk"))),
        allocations=dict(live.values_list("status").annotate(n=Count("pk"))),
    )


def _round_ages() -> dict[str, float]:
    """By the database's clock, which also stamps the rounds. Never done: infinite."""
    age = ExpressionWrapper(Now() - F("stamped_at"), output_field=DurationField())
    rows = TaskLease.objects.exclude(name__startswith=SITE_LEASES).annotate(age=age)
    ages = {
        name: seconds.total_seconds() if seconds is not None else float("inf")
        for name, seconds in rows.values_list("name", "age")
    }
    return {"plan": float("inf"), "sweep": float("inf")} | ages


def _troubled() -> Iterator[tuple[str, str]]:
    silent, holding = Q(status__in=values_of(NODE_SILENT)), Q(holding_since__isnull=False)
    rows = Node.objects.active().filter(silent | holding).order_by("name")
    for name, status, since in rows.values_list("name", "status", "holding_since")[
        :MAX_NAMED_NODES
    ]:
        if since is not None:
            yield name, "holding"
        if status in values_of(NODE_SILENT):
            yield name, "silent"


def _reason(code: str | None) -> str:
    return code if code in set(ReasonCode) else NO_REASON


def _sums(pairs: Iterable[tuple[str, int]]) -> Mapping[str, int]:
    sums: Counter[str] = Counter()
    for name, number in pairs:
        sums[name] += number
    return sums


class BrokerAway(Exception):
    """The broker does not answer."""


def queue_lengths() -> dict[str, int]:
    """Messages that wait in each queue. Raises BrokerAway."""
    with app.connection_for_read() as broker:
        errors = (*broker.connection_errors, *broker.channel_errors, OperationalError, OSError)
        try:
            broker.ensure_connection(max_retries=1, timeout=CONNECT_SECONDS)
            channel = broker.default_channel
            return {name: channel._size(name) for name in NAMES}
        except errors as error:
            raise BrokerAway(str(error)) from error
