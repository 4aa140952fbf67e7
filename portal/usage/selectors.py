"""Reads usage as far as the asking user may see it: own, of a project, of all."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from django.db.models import QuerySet

from agents.contract.boards import boards
from portal.accounts.models import Membership, Project, Role, User
from portal.errors import Refused
from portal.jobs.models import Allocation
from portal.usage.ledger import Line, Window, used_by_line

ME, ALL, IN = "me", "all", "project:"


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose usage is asked for. `of` is how the address says it; `runs`: the asking user is an
    admin of it."""

    of: str
    rows: QuerySet[Allocation]
    project: Project | None = None
    runs: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """The projects that a user may look at, by slug; `run`: those of which they are an admin."""

    user: User
    projects: Mapping[str, Project]
    run: frozenset[str]


@dataclass(frozen=True, slots=True)
class Entry:
    """What one user used in one project on one kind of slice of one model. Unit-seconds."""

    project: str
    user: str
    model: str
    kind: str
    used: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The entries of a window, largest first, and their sum."""

    entries: tuple[Entry, ...] = ()
    used: int = field(default=0)

    def by(self, key: Callable[[Entry], tuple[str, ...]]) -> list[tuple[tuple[str, ...], int]]:
        """Sums by what `key` says of an entry, largest first."""
        sums: dict[tuple[str, ...], int] = defaultdict(int)
        for entry in self.entries:
            sums[key(entry)] += entry.used
        return sorted(sums.items(), key=lambda item: (-item[1], item[0]))


def visible(user: User) -> QuerySet[Allocation]:
    """The allocations of the user's projects; every one for a platform admin. As for jobs."""
    if user.is_platform_admin:
        return Allocation.objects.all()
    return Allocation.objects.filter(project_id__in=_projects(user))


def seen(user: User) -> Seen:
    """The projects whose usage the user may see, archived ones included. One query."""
    if user.is_platform_admin:
        every = {row.slug: row for row in Project.objects.order_by("slug")}
        return Seen(user, every, frozenset(every))
    rows = Membership.objects.filter(user=user).select_related("project")
    mine = {row.project.slug: row.project for row in rows.order_by("project__slug")}
    return Seen(user, mine, frozenset(r.project.slug for r in rows if r.role == Role.ADMIN))


def scope_of(found: Seen, of: str) -> Scope:
    """Raises Refused(not_found): a foreign project and none read the same, and so does `all` for
    who may not see it."""
    user = found.user
    if of == ME:
        return Scope(ME, visible(user).filter(user=user))
    if of == ALL and user.is_platform_admin:
        return Scope(ALL, visible(user), runs=True)
    slug = of.removeprefix(IN)
    project = found.projects.get(slug) if of.startswith(IN) else None
    if project is None:
        raise Refused("not_found", "There is no such project, or you may not see it", "of", 404)
    return Scope(of, Allocation.objects.filter(project=project), project, slug in found.run)


def usage(rows: QuerySet[Allocation], window: Window, known: Iterable[Project] = ()) -> Usage:
    """What these allocations used in the window. Four queries, three where their projects are
    known."""
    return named(used_by_line(rows, window), known)


def named(lines: Mapping[Line, int], known: Iterable[Project] = ()) -> Usage:
    """The lines with the names that people know."""
    slugs = {project.pk: project.slug for project in known}
    if unknown := {line.project for line in lines} - slugs.keys():
        slugs |= _names(Project.objects.all(), "slug", unknown)
    people = _names(User.objects.all(), "username", {line.user for line in lines})
    sums: dict[tuple[str, str, str, str], int] = defaultdict(int)
    for line, used in lines.items():
        key = (slugs[line.project], people[line.user], model_of(line.board), line.kind)
        sums[key] += used
    in_order = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return Usage(tuple(Entry(*key, used) for key, used in in_order), sum(sums.values()))


def model_of(board: str) -> str:
    """ "H200" of the board "H200-141GB"; an unknown board is called as its driver does."""
    known = boards().get(board)
    return known.model if known else board


def _projects(user: User) -> QuerySet[Membership, int]:
    return Membership.objects.filter(user=user).values_list("project_id", flat=True)


def _names(rows: QuerySet, column: str, ids: set[int]) -> dict[int, str]:  # type: ignore[type-arg]
    return dict(rows.filter(pk__in=ids).order_by().values_list("pk", column))
