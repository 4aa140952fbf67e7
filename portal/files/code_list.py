"""The code that a project has: trees that were sent, and commits of repositories that its jobs ran;
each with the newest jobs that have it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Max, Min, QuerySet, Window
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import DenseRank, RowNumber

from portal.accounts.models import Project
from portal.files.limits import StoredLimits
from portal.files.models import Tree
from portal.files.removal import code_trees
from portal.jobs.models import Job, Replica
from portal.jobs.querysets import CODE_OF_REQUEST

# Of each code.
NAMED_JOBS = 3
# Of one project, the latest.
MAX_COMMITS = 100


@dataclass(slots=True)
class CodeUse:
    """Which jobs have it: how many, and the newest of them."""

    count: int = 0
    jobs: list[str] = field(default_factory=list)

    @property
    def more(self) -> int:
        return self.count - len(self.jobs)


@dataclass(frozen=True, slots=True)
class StoredCode:
    """A tree that was sent."""

    tree: Tree
    removal: datetime | None
    """When its files are removed; None while a job needs them, and where that is never."""
    is_needed: bool
    """By a job that waits or runs."""
    use: CodeUse


@dataclass(frozen=True, slots=True)
class CommitCode:
    """A commit that a node fetched for a job. The portal has no copy of it."""

    repository: str
    """The source, as requests name it."""
    commit: str
    creator: str
    """Whose job was the first with it."""
    first_at: datetime
    last_at: datetime
    """When the last job with it was submitted."""
    use: CodeUse


def project_code(project: Project) -> "QuerySet[Any]":
    """The trees whose files are there, the newest first, as `stored_code` takes them."""
    return code_trees().filter(project=project).order_by("-created_at", "-pk")


def stored_code(trees: Iterable[Any], limits: StoredLimits) -> list[StoredCode]:
    """Some rows of one project's `project_code`. One query, or none."""
    rows = list(trees)
    uses = _uses(rows)
    return [
        StoredCode(
            row,
            None if row.is_needed else limits.removal(row.used_at),
            row.is_needed,
            uses.get(row.pk.hex, CodeUse()),
        )
        for row in rows
    ]


def project_commits(project: Project) -> list[CommitCode]:
    """The commits that jobs of the project ran, the latest first. Three queries, or one."""
    jobs = Job.objects.filter(project=project).with_repository().order_by()
    ran = (
        Replica.objects.filter(rank=0, attempt__job__in=jobs.values("pk"))
        .exclude(code_commit="")
        .annotate(source=KeyTextTransform("code", "attempt__job__request"), job=F("attempt__job"))
    )
    columns = ("source", "code_commit")
    groups = ran.values(*columns).annotate(
        uses=Count("job", distinct=True), first=Min("job"), latest=Max("job")
    )
    found = list(groups.order_by("-latest")[:MAX_COMMITS])
    if not found:
        return []
    newest = Window(DenseRank(), partition_by=columns, order_by="-job")
    named = ran.filter(code_commit__in={group["code_commit"] for group in found})
    labels: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    places = named.annotate(place=newest).filter(place__lte=NAMED_JOBS).order_by("-job")
    for source, commit, job in places.values_list(*columns, "job").distinct():
        labels[source, commit].append(Job(pk=job).label)
    ends = {group[name] for group in found for name in ("first", "latest")}
    about = (
        Job.objects.select_related("owner").only("owner__username", "submitted_at").in_bulk(ends)
    )
    return [
        CommitCode(
            group["source"],
            group["code_commit"],
            about[group["first"]].owner.username,
            about[group["first"]].submitted_at,
            about[group["latest"]].submitted_at,
            CodeUse(group["uses"], labels[group["source"], group["code_commit"]]),
        )
        for group in found
    ]


def _uses(trees: Iterable[Tree]) -> dict[str, CodeUse]:
    """By the hexadecimal id of a tree. One query."""
    projects = {tree.pk.hex: tree.project_id for tree in trees}
    uses: defaultdict[str, CodeUse] = defaultdict(CodeUse)
    if not projects:
        return uses
    with_any = Job.objects.with_any_code().filter(project__in=set(projects.values()))
    with_them = with_any.annotate(code=CODE_OF_REQUEST).filter(code__in=list(projects))
    rows = with_them.annotate(
        place=Window(RowNumber(), partition_by="code", order_by="-pk"),
        uses=Window(Count("pk"), partition_by="code"),
    )
    for code, pk, count in (
        rows.filter(place__lte=NAMED_JOBS).order_by("-pk").values_list("code", "pk", "uses")
    ):
        uses[code].count = count
        uses[code].jobs.append(Job(pk=pk).label)
    return uses
