"""Removes trees: by people, and code that no job has used for long. Never what a job needs."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery, TextField, Value
from django.db.models.functions import Cast, Coalesce, Greatest, Replace
from django.utils import timezone

from agents.contract.file_transfer import TreeKind
from agents.contract.message import Message
from portal.accounts.models import User
from portal.accounts.selectors import is_project_admin
from portal.audit.codes import AuditAction
from portal.audit.services import audit_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.files.limits import StoredLimits
from portal.files.models import Tree
from portal.files.selectors import require_files
from portal.files.services import trees_remove
from portal.jobs.models import Job
from portal.jobs.querysets import JobQuerySet
from portal.jobs.selectors import may_cancel
from portal.live.bell import ring

# Jobs that a refusal names.
NAMED_JOBS = 3
_KEY = Replace(Cast(OuterRef("pk"), TextField()), Value("-"), Value(""), output_field=TextField())


def may_remove(user: User, tree: Tree) -> bool:
    """Of a job: its owner. Of code: who sent it. And admins of the project or of the platform."""
    if tree.job:
        return may_cancel(user, tree.job)
    return tree.pk in removable_code(user, tree.project_id, [tree])


def removable_code(user: User, project_id: int, trees: Iterable[Tree]) -> frozenset[UUID]:
    """Of these trees of code of one project, those that the user may remove. One query."""
    is_admin = is_project_admin(user, project_id)
    return frozenset(tree.pk for tree in trees if is_admin or tree.creator == user.username)


def tree_remove(*, tree: Tree, actor: User) -> None:
    """Remove its files now; the row stays and says when.

    Raises Refused(forbidden, files_removed, files_needed)."""
    if not may_remove(actor, tree):
        sentence = "Only who sent these files, the owner of their job and admins may remove them"
        raise Refused(ErrorCode.FORBIDDEN, sentence)
    with transaction.atomic():
        if tree.job_id:
            # A retry that goes on from it refers to it, and so waits.
            list(Job.objects.select_for_update().filter(pk=tree.job_id).values_list("pk"))
        row = Tree.objects.filter(pk=tree.pk).lock_rows()[0]
        require_files(row)
        _require_not_needed(row)
        trees_remove(trees=[row], now=timezone.now())
        audit_record(
            actor=actor.username,
            action=AuditAction.FILES_REMOVE,
            noun="tree",
            noun_id=str(row.pk),
            project=row.project,
            before={
                "kind": row.kind,
                "job": tree.job.label if tree.job else None,
                "files": row.file_count,
                "bytes": row.total_bytes,
            },
        )
        if row.job_id:
            ring(f"job:{row.job_id}")


def needing_jobs(tree: Tree) -> JobQuerySet[Job]:
    """The jobs that wait or run and start with these files."""
    open_jobs = Job.objects.not_final()
    if tree.kind == TreeKind.CODE:
        return open_jobs.with_code(tree.pk.hex)
    if tree.kind == TreeKind.CHECKPOINT:
        return open_jobs.filter(Q(pk=tree.job_id) | Q(resumes=tree.job_id))
    return open_jobs.none()


def code_trees() -> "QuerySet[Any]":
    """Code whose files are there, each with `is_needed`: by a job that waits or runs, and
    `used_at`: when the last job with it ended, or when it was sent, if that is later."""
    using = Job.objects.with_code(_KEY)
    last_end = using.filter(finished_at__isnull=False).order_by("-finished_at")
    end = Subquery(last_end.values("finished_at")[:1])
    return (
        Tree.objects.with_files()
        .filter(kind=TreeKind.CODE)
        .annotate(
            is_needed=Exists(using.not_final()),
            used_at=Greatest(F("created_at"), Coalesce(end, F("created_at"))),
        )
    )


def removal_at(tree: Tree, limits: StoredLimits) -> datetime | None:
    """When its files are removed; None if that is not decided yet, or they are gone. One query for
    code."""
    if tree.removed_at is not None:
        return None
    if tree.kind != TreeKind.CODE:
        return limits.removal(tree.job.finished_at) if tree.job else None
    end = code_trees().filter(pk=tree.pk, is_needed=False).values_list("used_at", flat=True).first()
    return limits.removal(end)


def code_remove(*, trees: Iterable[Tree], cutoff: datetime) -> int:
    """Remove code that no job has used since then. How many trees."""
    with transaction.atomic():
        # A submit locks the code that it names: what is locked here is named by none, and is
        # looked at once more.
        locked = Tree.objects.filter(pk__in=[tree.pk for tree in trees]).lock_keys(skip_locked=True)
        unused = code_trees().filter(pk__in=locked, is_needed=False, used_at__lt=cutoff)
        return trees_remove(trees=unused, now=timezone.now())


def _require_not_needed(tree: Tree) -> None:
    jobs = list(needing_jobs(tree).order_by("pk")[: NAMED_JOBS + 1])
    if jobs:
        names = ", ".join(job.label for job in jobs[:NAMED_JOBS])
        sentence = Message(
            "Jobs need these files: %(jobs)s. Cancel them or wait for their end first",
            jobs=names + (", …" if len(jobs) > NAMED_JOBS else ""),
        )
        raise Refused(ErrorCode.FILES_NEEDED, sentence)
