"""Removes outputs and checkpoints of jobs that ended long ago, code that no job has used for as
long, and contents that no tree has."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import Count, Exists, Min, OuterRef, Q, Sum

from agents.contract.file_transfer import TreeKind
from portal.files.models import ProjectFiles, StoredFile, Tree, TreeQuerySet
from portal.files.removal import code_remove, code_trees
from portal.files.services import contents_remove, trees_remove
from portal.jobs.models import Job
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
    removed = 0
    for projects, days in _days_of_projects(limits.days):
        if days:
            cutoff = now - timedelta(days=days)
            old = _ended().filter(projects, job__finished_at__lt=cutoff)
            removed += trees_remove(trees=old.order_by("job__finished_at", "pk")[:TREES], now=now)
            unused = code_trees().filter(projects, is_needed=False, created_at__lt=cutoff)
            code = unused.filter(used_at__lt=cutoff).order_by("created_at", "pk")[:TREES]
            removed += code_remove(trees=code, cutoff=cutoff)
    contents_remove(now=now, limit=BATCH)
    return removed


def _days_of_projects(default: int) -> Iterator[tuple[Q, int]]:
    """Which projects keep files for how many days: those with their own time, then all others."""
    own = ProjectFiles.objects.filter(kept_days__isnull=False)
    for days in sorted({row or 0 for row in own.values_list("kept_days", flat=True)}):
        yield Q(project__files__kept_days=days), days
    yield Q(project__files__kept_days__isnull=True), default


def _ended() -> TreeQuerySet:
    """Those of jobs that the limits may remove: no job that waits or runs starts with them."""
    resuming = Job.objects.not_final().filter(resumes=OuterRef("job"))
    return Tree.objects.with_files().filter(
        ~Exists(resuming),
        kind__in=(TreeKind.OUTPUT, TreeKind.CHECKPOINT),
        job__status__in=values_of(JOB_FINAL),
    )
