"""The Files tab: what a job wrote, folder by folder, and a preview of one file."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import QueryDict

from agents.contract.file_transfer import TreeKind
from portal.accounts.models import User
from portal.errors import Refused
from portal.files.limits import stored_limits
from portal.files.models import Tree, TreeEntry
from portal.files.removal import may_remove, removal_at
from portal.files.selectors import code_tree_of, job_trees, tree_content
from portal.jobs.models import Job
from portal.jobs.selectors import may_cancel
from portal.web.job.file_preview import FilePreview, file_preview
from portal.web.wording.messages import refusal_text

# Of a job with many checkpoints, the newest; of a folder with many files, the first.
MAX_TREES = 50
MAX_LINES = 500
# Beside the end of a job.
MAX_NAMED_FILES = 3


@dataclass(frozen=True, slots=True)
class FolderLine:
    """A file, or a folder with how much is below it."""

    name: str
    query: str
    """That opens it."""
    size: int
    file_count: int = 0
    """Of a folder."""
    path: str = ""
    """Of a file."""


@dataclass(frozen=True, slots=True)
class OpenTree:
    """The tree whose files are listed, at one folder or one file of it."""

    tree: Tree
    crumbs: list[tuple[str, str]]
    """The folders above, each with the query that opens it."""
    name: str
    lines: list[FolderLine]
    omitted: int = 0
    preview: FilePreview | None = None
    notice: str = ""
    path: str = ""
    """Of the folder or file."""

    @property
    def command(self) -> str:
        """That copies the folder or file."""
        job = self.tree.job.label if self.tree.job else ""
        options = []
        if self.tree.kind == TreeKind.CHECKPOINT:
            options.append("--checkpoint")
        if self.tree.attempt:
            options += ["--attempt", str(self.tree.attempt.number)]
        if self.tree.rank:
            options += ["--rank", str(self.tree.rank)]
        return shlex.join(["tessera", "cp", *options, f"{job}:{self.path}", "."])


@dataclass(frozen=True, slots=True)
class JobFiles:
    trees: list["ShownTree"]
    is_cut: bool
    kept_days: int
    open: OpenTree | None
    code: "ShownTree | None"


@dataclass(frozen=True, slots=True)
class ShownTree:
    tree: Tree
    removal: datetime | None
    """When its files are removed."""
    may_remove: bool
    """The reader, now."""


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file of an output, as it is named beside the end of its job."""

    path: str
    size: int
    tree: UUID


@dataclass(frozen=True, slots=True)
class JobOutput:
    files: list[OutputFile]
    has_more: bool


def job_output(job: Job) -> JobOutput | None:
    """The first files that the newest attempt wrote; None if there are none. One query."""
    entries = TreeEntry.objects.filter(tree__job=job, tree__kind=TreeKind.OUTPUT)
    newest = entries.order_by("-tree__attempt", "tree__rank", "position")
    found = newest.values_list("path", "file__size", "tree_id")[: MAX_NAMED_FILES + 1]
    files = [OutputFile(*columns) for columns in found]
    return JobOutput(files[:MAX_NAMED_FILES], len(files) > MAX_NAMED_FILES) if files else None


def job_files(user: User, job: Job, query: QueryDict) -> JobFiles:
    """The one that the query names is open, or the only one."""
    limits = stored_limits(job.project_id)
    found = list(job_trees(job).select_related("job", "attempt")[: MAX_TREES + 1])
    code = _code(job)
    rows = [tree for tree in (*found[:MAX_TREES], code) if tree and tree.removed_at is None]
    named = query.get("tree", "")
    is_open = next((t for t in rows if str(t.pk) == named or (len(rows) == 1 and not named)), None)
    is_own, removal = may_cancel(user, job), limits.removal(job.finished_at)
    return JobFiles(
        trees=[ShownTree(tree, removal, is_own) for tree in found[:MAX_TREES]],
        is_cut=len(found) > MAX_TREES,
        kept_days=limits.kept_days,
        open=open_tree(is_open, query.get("dir", ""), query.get("file", "")) if is_open else None,
        code=ShownTree(code, removal_at(code, limits), may_remove(user, code)) if code else None,
    )


def open_tree(tree: Tree, folder: str, file: str) -> OpenTree:
    """A folder of it, or the preview of a file."""
    path = file or folder.strip("/")
    parts = path.split("/") if path else []
    crumbs = [("", _query(tree))] if parts else []
    crumbs += [(part, _query(tree, dir="/".join(parts[: n + 1]))) for n, part in enumerate(parts)]
    name = parts[-1] if parts else ""
    if not file:
        lines = _lines(tree, f"{path}/" if path else "")
        omitted = max(0, len(lines) - MAX_LINES)
        return OpenTree(tree, crumbs[:-1], name, lines[:MAX_LINES], omitted, path=path)
    try:
        content = tree_content(tree, file)
        preview = file_preview(content, file)
        return OpenTree(tree, crumbs[:-1], name, [], preview=preview, path=path)
    except Refused as refused:
        return OpenTree(tree, crumbs[:-1], name, [], notice=refusal_text(refused))


def _lines(tree: Tree, prefix: str) -> list[FolderLine]:
    """What is directly below the folder: folders first, each with the sum of its files."""
    if "\0" in prefix:
        return []
    entries = tree.entries.filter(path__startswith=prefix).order_by("position")
    folders: dict[str, list[int]] = {}
    files = []
    for path, size in entries.values_list("path", "file__size"):
        name, slash, _ = path.removeprefix(prefix).partition("/")
        if slash:
            folders.setdefault(name, []).append(size)
        else:
            files.append(FolderLine(name, _query(tree, file=path), size, path=path))
    return [*_folders(tree, prefix, folders.items()), *files]


def _folders(tree: Tree, prefix: str, folders: Iterable[tuple[str, list[int]]]) -> list[FolderLine]:
    return [
        FolderLine(f"{name}/", _query(tree, dir=prefix + name), sum(sizes), len(sizes))
        for name, sizes in folders
    ]


def _code(job: Job) -> Tree | None:
    """The code that its request names, if it names any."""
    code: UUID | None = code_tree_of(job)
    if code is None:
        return None
    return Tree.objects.filter(pk=code, project=job.project_id, kind=TreeKind.CODE).first()


def _query(tree: Tree, **place: Any) -> str:
    return "?" + urlencode({"tree": str(tree.pk)} | place)
