"""Removes outputs and checkpoints of jobs that ended long ago, and contents that no tree has."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import Count, Min, Q, Sum

from agents.contract.file_transfer import TreeKind
from portal.files.models import ProjectFiles, StoredFile, Tree, TreeQuerySet
from portal.files.services import contents_remove, trees_remove
from portal.jobs.querysets import values_of
from portal.retention.limits import BATCH, RetentionLimits, StoredUse
from scheduler.core.model.states import JOB_FINAL

# A tree may have thousands of files.
TREES = 50


def files_use(limits: RetentionLimits) -> StoredUse:
    """Two queries. `limits`: those of projects without their own."""
    total = StoredFile.objects.aggregate(count=Count("pk"), bytes=Sum("received_bytes"))
    oldest = _ended().aggregate(at=Min("job__finished_at"))["at"]
    return StoredUse(total["count"], total["bytes"] or 0, limits, oldest)


def files_remove(*, limits: RetentionLimits, now: datetime) -> int:
    """Remove trees that are too old, and a batch of contents that no tree has. How many trees.

    The bytes are removed with those of logs. `limits`: of projects without their own."""
    due: list[Tree] = []
    for projects, days in _days_of_projects(limits.days):
        if days:
            old = _ended().filter(projects, job__finished_at__lt=now - timedelta(days=days))
            due += old.order_by("job__finished_at", "pk")[: TREES - len(due)]
    removed = trees_remove(trees=due, now=now) if due else 0
    contents_remove(now=now, limit=BATCH)
    return removed


def _days_of_projects(default: int) -> Iterator[tuple[Q, int]]:
    """Which projects keep files for how many days: those with their own time, then all others."""
    own = ProjectFiles.objects.filter(kept_days__isnull=False)
    for days in sorted({row or 0 for row in own.values_list("kept_days", flat=True)}):
        yield Q(project__files__kept_days=days), days
    yield Q(project__files__kept_days__isnull=True), default


def _ended() -> TreeQuerySet:
    """Those that the limits may remove."""
    return Tree.objects.with_files().filter(
        kind__in=(TreeKind.OUTPUT, TreeKind.CHECKPOINT), job__status__in=values_of(JOB_FINAL)
    )
