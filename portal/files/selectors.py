"""Reads trees, the files in them, and which of them a node may have."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q

from agents.contract.file_transfer import TreeKind
from agents.contract.git_source import is_git_source
from agents.contract.message import Message
from portal.accounts.models import Project, User
from portal.accounts.selectors import projects_of
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.files.models import StoredFile, Tree, TreeEntry, TreeQuerySet
from portal.jobs.models import Job

# Of a tree whose paths are searched.
MAX_SEARCHED_FILES = 5_000


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A file of a tree, as it is listed."""

    path: str
    sha256: str
    size: int
    executable: bool


def job_trees(job: Job) -> TreeQuerySet:
    """Outputs and checkpoints of the job, the newest first; also those whose files are gone."""
    return job.trees.select_related("attempt").newest_first()


def visible_tree(user: User, tree: UUID) -> Tree:
    """Raises Refused(not_found)."""
    rows = Tree.objects.select_related("job", "project", "attempt")
    projects = projects_of(user).prefetch_related(None)
    row = rows.filter(pk=tree, project__in=projects.values("pk")).first()
    if row is None:
        raise Refused(ErrorCode.NOT_FOUND, "There is no such tree, or you may not see it")
    return row


def require_files(tree: Tree) -> None:
    """Raises Refused(files_removed)."""
    if tree.removed_at is not None:
        sentence = "These files were removed"
        raise Refused(ErrorCode.FILES_REMOVED, sentence)


def tree_rows(tree: Tree, after: int, limit: int) -> list[TreeRow]:
    """Files of the tree, by path, behind the first `after` ones. One query."""
    rows = tree.entries.filter(position__gte=after).order_by("position")
    return _rows(rows.values_list("path", "file__sha256", "file__size", "executable")[:limit])


def tree_content(tree: Tree, path: str) -> StoredFile:
    """The content at that path. Raises Refused(not_found, files_removed)."""
    require_files(tree)
    # What no path may have is not asked of the database: PostgreSQL takes no NUL.
    entry = "\0" not in path and tree.entries.select_related("file").filter(path=path).first()
    if not entry:
        raise Refused(ErrorCode.NOT_FOUND, "The tree has no file of that path", "path")
    return entry.file


def job_content(job: Job, path: str) -> StoredFile:
    """The content at that path in what the job wrote; of several the newest. Raises
    Refused(not_found)."""
    rows = TreeEntry.objects.select_related("file").filter(tree__in=job_trees(job).with_files())
    entries = rows.filter(path=path).order_by("-tree__attempt", "-tree__created_at", "-tree")
    entry = None if "\0" in path else entries.first()
    if entry is None:
        raise Refused(ErrorCode.NOT_FOUND, "The job wrote no file of that path, or it was removed")
    return entry.file


def files_named(project: Project, name: str, trees: int, limit: int) -> list[TreeEntry]:
    """Files of that name in any folder of the newest `trees` trees of the project, the newest tree
    first. Trees with so many files that reading their paths takes long are left out. Two
    queries."""
    kept = Tree.objects.with_files().filter(project=project, file_count__lte=MAX_SEARCHED_FILES)
    newest = list(kept.order_by("-created_at").values_list("pk", flat=True)[:trees])
    entries = TreeEntry.objects.select_related("tree", "tree__job").filter(tree__in=newest)
    is_named = Q(path=name) | Q(path__endswith=f"/{name}")
    return list(entries.filter(is_named).order_by("-tree__created_at", "tree", "path")[:limit])


def newest_checkpoint(job: Job) -> list[Tree]:
    """The trees that make up the newest checkpoint of a job, or else of the one that it resumes,
    rank 0's first; empty if none was saved, or it was removed. Rank 0 says which is the newest."""
    for pk in saving_jobs(job):
        own = Tree.objects.with_files().filter(job=pk, kind=TreeKind.CHECKPOINT, rank=0)
        if newest := own.newest_first().first():
            return checkpoint_with_ranks(newest)
    return []


def saving_jobs(job: Job) -> list[int]:
    """The jobs whose checkpoints it may start with, itself first."""
    return [job.pk, job.resumes_id] if job.resumes_id else [job.pk]


def jobs_with_checkpoint(jobs: Iterable[int]) -> frozenset[int]:
    """Those of these jobs that have saved one, by primary key. One query."""
    saved = Tree.objects.with_files().filter(job__in=list(jobs), kind=TreeKind.CHECKPOINT, rank=0)
    return frozenset(pk for pk in saved.values_list("job", flat=True) if pk is not None)


def checkpoint_with_ranks(newest: Tree) -> list[Tree]:
    """The tree of rank 0, and what other ranks of its attempt saved at the same step."""
    own = Tree.objects.with_files().filter(job=newest.job_id, kind=TreeKind.CHECKPOINT)
    others = own.filter(attempt=newest.attempt_id, step=newest.step, rank__gt=0)
    by_rank: dict[int, Tree] = {}
    for tree in others.order_by("rank", "created_at"):
        by_rank[tree.rank] = tree
    return [newest, *by_rank.values()]


def merged_rows(trees: Sequence[Tree], after: int, limit: int) -> tuple[list[TreeRow], int, int]:
    """A page of the files of all of them, and the number and bytes of all. Where two have a path,
    the file of the lower rank counts."""
    if len(trees) == 1:
        (tree,) = trees
        return tree_rows(tree, after, limit), tree.file_count, tree.total_bytes
    columns = ("path", "file__sha256", "file__size", "executable")
    entries = TreeEntry.objects.filter(tree__in=trees).order_by("-tree__rank")
    found = {row.path: row for row in _rows(entries.values_list(*columns))}
    rows = [found[path] for path in sorted(found)]
    return rows[after : after + limit], len(rows), sum(row.size for row in rows)


def content_for_job(job: Job, sha256: str) -> StoredFile | None:
    """A content that a node which runs the job may read: of its code, or a saved checkpoint."""
    readable = Q(tree__job__in=saving_jobs(job), tree__kind=TreeKind.CHECKPOINT)
    if code := code_tree_of(job):
        readable |= Q(tree=code, tree__project=job.project_id)
    entry = (
        TreeEntry.objects.select_related("file")
        .filter(readable, file__project=job.project_id, file__sha256=sha256)
        .first()
    )
    return entry.file if entry else None


def code_tree_of(job: Job) -> UUID | None:
    """The tree of the code that its request names."""
    code = job.request.get("code", "")
    return UUID(code) if code and not is_git_source(code) else None


def require_code(project: Project, code: str) -> None:
    """Raises Refused(code_unknown) unless it is code of the project, and its files are there."""
    kept = Tree.objects.with_files().filter(project=project, kind=TreeKind.CODE)
    if not kept.filter(pk=code).exists():
        sentence = Message(
            "%(project)s has no code with this id, or it was removed. Send the folder again",
            project=project.slug,
        )
        raise Refused(ErrorCode.CODE_UNKNOWN, sentence, "code")


def code_trees(project_id: int, trees: Iterable[str]) -> dict[str, Tree]:
    """Those of these code trees that the project has, by id. One query, or none."""
    kept = Tree.objects.with_files().filter(project=project_id, kind=TreeKind.CODE)
    wanted = [tree for tree in trees if is_tree_id(tree)]
    return {str(tree.pk): tree for tree in kept.filter(pk__in=wanted)} if wanted else {}


def is_tree_id(text: str) -> bool:
    try:
        return bool(UUID(text))
    except ValueError:
        return False


def _rows(columns: object) -> list[TreeRow]:
    return [TreeRow(*row) for row in columns]  # type: ignore[attr-defined]
