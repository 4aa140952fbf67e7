"""Writes what nodes report of the kernels of notebooks."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from portal.idle.judgement import MINUTE
from portal.idle.models import KernelActivity
from portal.inventory.models import Node
from portal.jobs.models import Replica
from scheduler.core.model.states import ReplicaStatus


def kernel_activity_report(
    *, node: Node, idle_minutes: Mapping[UUID, tuple[int, int]], now: datetime
) -> None:
    """`idle_minutes`: by replica, with the fence of its attempt. What is not the node's, does not
    run or has another fence is ignored. A report that says nothing new within a minute writes
    nothing."""
    own = Replica.objects.filter(pk__in=idle_minutes, node=node, status=ReplicaStatus.RUNNING)
    fences = dict(own.values_list("pk", "attempt_id"))
    stored = KernelActivity.objects.in_bulk(fences)
    rows = []
    for pk, (minutes, fence) in idle_minutes.items():
        if fences.get(pk) != fence:
            continue
        row = KernelActivity(pk, active_at=now - timedelta(minutes=minutes), reported_at=now)
        if not _is_known(row, stored.get(pk)):
            rows.append(row)
    if rows:
        with transaction.atomic():
            KernelActivity.objects.bulk_create(
                rows,
                update_conflicts=True,
                unique_fields=["replica"],
                update_fields=["active_at", "reported_at"],
            )


def _is_known(row: KernelActivity, stored: KernelActivity | None) -> bool:
    if stored is None or row.reported_at - stored.reported_at >= MINUTE:
        return False
    return abs(row.active_at - stored.active_at) < MINUTE
