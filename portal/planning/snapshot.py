"""Nodes, GPUs, slices and quotas as the planner's values, in a constant number of queries."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from portal.database.kept_queries import KeptSelect
from portal.planning.node_views import node_records, node_views
from portal.quotas.models import Quota
from scheduler.core.model.snapshot import ClusterSnapshot, QuotaView


def cluster_snapshot(*, now: datetime, nodes: Iterable[UUID] | None = None) -> ClusterSnapshot:
    """Nodes and quotas alone: all nodes, or only `nodes`. Enough to check whether a job could ever
    run, or whether a placement still fits; `planner_input` adds the queue."""
    records = node_records(list(nodes) if nodes is not None else None)
    return ClusterSnapshot(
        now=int(now.timestamp()), nodes=node_views(records.values()), quotas=quota_views()
    )


_QUOTAS: KeptSelect[tuple[Any, ...]] = KeptSelect(
    lambda: Quota.objects.order_by("id").values_list(
        "project__slug",
        "user__username",
        "limit_units",
        "used_units",
        "model",
        "borrow_units",
        "lend_units",
    )
)


def quota_views() -> tuple[QuotaView, ...]:
    """Every quota, and what is in use of it. One query."""
    rows = _QUOTAS.rows()
    return tuple(QuotaView(project, user or "", *rest) for project, user, *rest in rows)
