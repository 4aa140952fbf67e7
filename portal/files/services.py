"""Commits and removes trees, and removes contents that no tree has."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from agents.contract.errors import ContractError
from agents.contract.file_transfer import TreeFile, TreeKind, check_tree_paths
from agents.contract.message import Message
from portal.audit.codes import EventCode
from portal.audit.models import Event
from portal.audit.transitions import event_record
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.files.limits import files_row_lock
from portal.files.models import CodeOrigin, StoredFile, Tree, TreeEntry
from portal.files.receiving import contents_forget
from portal.jobs.models import Attempt, Replica
from portal.live.bell import ring

# Of one job: the newest saved one, and the one before, which a node may just be reading.
KEPT_CHECKPOINTS = 2
# Keys of one statement.
BATCH = 500

Key = TypeVar("Key")


def code_commit(
    *, project_id: int, files: Sequence[TreeFile], creator: str, origin: CodeOrigin
) -> Tree:
    """Code of a project, for its jobs. The same paths and contents again are the same tree,
    however it came first. Raises Refused(path_invalid, file_incomplete)."""
    digest = _digest(files)
    with transaction.atomic():
        files_row_lock(project_id)
        same = Tree.objects.with_files().filter(
            project=project_id, kind=TreeKind.CODE, digest=digest
        )
        if found := same.first():
            return found
        tree = Tree(project_id=project_id, kind=TreeKind.CODE, digest=digest)
        tree.creator, tree.origin = creator, origin
        return _create(tree, files)


def tree_commit(
    *, replica: Replica, kind: TreeKind, files: Sequence[TreeFile], step: int = 0, left_out: int = 0
) -> Tree:
    """An output or a checkpoint of a replica. The same one again is the same tree.

    An output replaces what the replica sent before. Raises Refused(path_invalid, file_incomplete).
    """
    digest = _digest(files)
    job = replica.attempt.job
    with transaction.atomic():
        Replica.objects.filter(pk=replica.pk).lock_rows()
        newest = Tree.objects.with_files().filter(replica=replica, kind=kind).newest_first().first()
        if newest and (newest.digest, newest.step) == (digest, step):
            return newest
        tree = Tree(
            project_id=job.project_id,
            kind=kind,
            job=job,
            attempt=replica.attempt,
            replica=replica,
            rank=replica.rank,
            step=step,
            digest=digest,
            left_out=left_out,
        )
        _create(tree, files)
        if kind == TreeKind.CHECKPOINT:
            older = _superseded(tree)
            if not tree.rank:
                Attempt.objects.filter(pk=replica.attempt_id).update(saved_at=tree.created_at)
        else:
            same = Tree.objects.with_files().filter(replica=replica, kind=kind)
            older = list(same.exclude(pk=tree.pk))
        trees_remove(trees=older, now=tree.created_at)
        ring(f"job:{job.pk}")
    return tree


def trees_remove(*, trees: Iterable[Tree], now: datetime) -> int:
    """Remove their files; their rows stay and say when. How many."""
    rows = Tree.objects.with_files().filter(pk__in=[tree.pk for tree in trees])
    with transaction.atomic():
        kept = rows.lock_keys()
        if not kept:
            return 0
        entries = TreeEntry.objects.filter(tree__in=kept)
        contents = sorted(set(entries.values_list("file_id", flat=True)))
        entries.delete()
        for keys in _in_batches(contents):
            _unused(StoredFile.objects.filter(pk__in=keys)).update(removable_at=now)
        return Tree.objects.filter(pk__in=kept).update(removed_at=now)


def contents_remove(*, now: datetime, limit: int) -> int:
    """Remove contents that no tree has, if their time has come. How many."""
    due = _unused(StoredFile.objects.filter(removable_at__lte=now))
    keys = list(due.order_by("pk").values_list("pk", flat=True)[:limit])
    if not keys:
        return 0
    with transaction.atomic():
        # A commit locks the contents that it names: what is locked here is named by none, and is
        # looked at once more.
        locked = StoredFile.objects.filter(pk__in=keys).lock_keys(skip_locked=True)
        rows = list(_unused(StoredFile.objects.filter(pk__in=locked, removable_at__lte=now)))
        contents_forget(rows)
    return len(rows)


def code_keep(*, code: Iterable[str]) -> None:
    """Lock code that new jobs name, in the transaction that creates them, so that none is removed
    meanwhile. Raises Refused(code_unknown)."""
    wanted = {UUID(one) for one in code if one}
    if wanted and len(Tree.objects.with_files().filter(pk__in=wanted).lock_keys()) < len(wanted):
        sentence = "The code of a job was removed while it was submitted. Send the folder again"
        raise Refused(ErrorCode.CODE_UNKNOWN, sentence, "code")


def stored_limit_record(*, attempt: Attempt, message: Message) -> None:
    """Write into the job's history that its files are not stored, once for each attempt."""
    own = Event.objects.filter(job=attempt.job_id, code=EventCode.FILES_NOT_STORED)
    if not own.filter(at__gte=attempt.created_at).exists():
        event_record(attempt.job, EventCode.FILES_NOT_STORED, message)
        ring(f"job:{attempt.job_id}")


def _create(tree: Tree, files: Sequence[TreeFile]) -> Tree:
    contents = _contents_lock(tree.project_id, files)
    tree.file_count = len(files)
    tree.total_bytes = sum(one.size for one in files)
    tree.created_at = timezone.now()
    tree.save(force_insert=True)
    in_order = sorted(files, key=lambda one: one.path)
    entries = [
        TreeEntry(
            tree=tree,
            position=position,
            path=one.path,
            file_id=contents[one.sha256, one.size],
            executable=one.executable,
        )
        for position, one in enumerate(in_order)
    ]
    TreeEntry.objects.bulk_create(entries, batch_size=BATCH)
    return tree


def _contents_lock(project_id: int, files: Sequence[TreeFile]) -> dict[tuple[str, int], int]:
    """The primary keys of the contents, which from now on have a tree. Raises
    Refused(file_incomplete)."""
    wanted = {(one.sha256, one.size) for one in files}
    keys: dict[tuple[str, int], int] = {}
    for names in _in_batches(sorted({name for name, _ in wanted})):
        rows = StoredFile.objects.filter(project=project_id, is_complete=True, sha256__in=names)
        keys |= {(row.sha256, row.size): row.pk for row in rows.lock_rows()}
    if missing := wanted - keys.keys():
        path = min(one.path for one in files if (one.sha256, one.size) in missing)
        sentence = Message(
            "%(count)s files of the tree have not arrived, such as %(path)s. Send them first",
            count=len(missing),
            path=ascii(path[:64]),
        )
        raise Refused(ErrorCode.FILE_INCOMPLETE, sentence, "files")
    for pks in _in_batches(sorted(keys[one] for one in wanted)):
        used = StoredFile.objects.filter(pk__in=pks, removable_at__isnull=False)
        used.update(removable_at=None)
    return keys


def _superseded(tree: Tree) -> list[Tree]:
    """Checkpoints of the job that are older than those to be kept. Rank 0 decides which are."""
    if tree.rank:
        return []
    own = Tree.objects.with_files().filter(job=tree.job_id, kind=TreeKind.CHECKPOINT)
    saved = list(own.filter(rank=0).newest_first()[: KEPT_CHECKPOINTS + 1])
    if len(saved) <= KEPT_CHECKPOINTS:
        return []
    kept = {(one.attempt_id, one.step) for one in saved[:KEPT_CHECKPOINTS]}
    cut = saved[KEPT_CHECKPOINTS - 1].created_at
    older = own.filter(created_at__lt=cut)
    return [one for one in older if (one.attempt_id, one.step) not in kept]


def _unused(rows: QuerySet[StoredFile]) -> QuerySet[StoredFile]:
    return rows.filter(~Exists(TreeEntry.objects.filter(file=OuterRef("pk"))))


def _digest(files: Sequence[TreeFile]) -> str:
    """Raises Refused(path_invalid)."""
    try:
        check_tree_paths(one.path for one in files)
    except ContractError as error:
        sentence = Message("A path cannot be stored: %(problem)s", problem=error.sentence)
        raise Refused(ErrorCode.PATH_INVALID, sentence, "files") from error
    rows = sorted((one.path, one.sha256, one.size, one.executable) for one in files)
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _in_batches(keys: Sequence[Key]) -> Iterator[Sequence[Key]]:
    for start in range(0, len(keys), BATCH):
        yield keys[start : start + BATCH]
