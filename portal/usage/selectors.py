"""Reads usage as far as the asking user may see it: own, of a project, of all."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from django.db.models import QuerySet

from agents.contract.boards import known_boards
from portal.accounts.models import Membership, Project, Role, User
from portal.errors import Refused
from portal.jobs.models import Allocation
from portal.usage.ledger import UsageKey, UsageWindow, unit_seconds_by_key

ME, ALL, IN = "me", "all", "project:"


@dataclass(frozen=True, slots=True)
class UsageScope:
    """Whose usage is asked for. `of` is how the address says it; `runs`: the asking user is an
    admin of it."""

    name: str
    rows: QuerySet[Allocation]
    project: Project | None = None
    is_admin: bool = False


@dataclass(frozen=True, slots=True)
class VisibleProjects:
    """The projects that a user may look at, by slug; `run`: those of which they are an admin."""

    user: User
    projects: Mapping[str, Project]
    administered: frozenset[str]


@dataclass(frozen=True, slots=True)
class UsageEntry:
    """What one user used in one project on one kind of slice of one model. Unit-seconds."""

    project: str
    user: str
    model: str
    kind: str
    unit_seconds: int


@dataclass(frozen=True, slots=True)
class UsageReport:
    """The entries of a window, largest first, and their sum."""

    entries: tuple[UsageEntry, ...] = ()
    unit_seconds: int = field(default=0)

    def sums_by(
        self, key: Callable[[UsageEntry], tuple[str, ...]]
    ) -> list[tuple[tuple[str, ...], int]]:
        """Sums by what `key` says of an entry, largest first."""
        sums: dict[tuple[str, ...], int] = defaultdict(int)
        for entry in self.entries:
            sums[key(entry)] += entry.unit_seconds
        return sorted(sums.items(), key=lambda item: (-item[1], item[0]))


def visible_allocations(user: User) -> QuerySet[Allocation]:
    """The allocations of the user's projects; every one for a platform admin. As for jobs."""
    if user.is_platform_admin:
        return Allocation.objects.all()
    return Allocation.objects.filter(project_id__in=_projects(user))


def visible_projects(user: User) -> VisibleProjects:
    """The projects whose usage the user may see, archived ones included. One query."""
    if user.is_platform_admin:
        every = {row.slug: row for row in Project.objects.order_by("slug")}
        return VisibleProjects(user, every, frozenset(every))
    rows = Membership.objects.filter(user=user).select_related("project")
    mine = {row.project.slug: row.project for row in rows.order_by("project__slug")}
    return VisibleProjects(
        user, mine, frozenset(r.project.slug for r in rows if r.role == Role.ADMIN)
    )


def usage_scope(projects: VisibleProjects, name: str) -> UsageScope:
    """Raises Refused(not_found): a foreign project and none read the same, and so does `all` for
    who may not see it."""
    user = projects.user
    if name == ME:
        return UsageScope(ME, visible_allocations(user).filter(user=user))
    if name == ALL and user.is_platform_admin:
        return UsageScope(ALL, visible_allocations(user), is_admin=True)
    slug = name.removeprefix(IN)
    project = projects.projects.get(slug) if name.startswith(IN) else None
    if project is None:
        raise Refused("not_found", "There is no such project, or you may not see it", "of", 404)
    return UsageScope(
        name, Allocation.objects.filter(project=project), project, slug in projects.administered
    )


def usage_report(
    rows: QuerySet[Allocation], window: UsageWindow, projects: Iterable[Project] = ()
) -> UsageReport:
    """What these allocations used in the window. Four queries, three where their projects are
    known."""
    return named_usage(unit_seconds_by_key(rows, window), projects)


def named_usage(lines: Mapping[UsageKey, int], projects: Iterable[Project] = ()) -> UsageReport:
    """The lines with the names that people know."""
    slugs = {project.pk: project.slug for project in projects}
    if unknown := {line.project for line in lines} - slugs.keys():
        slugs |= _names(Project.objects.all(), "slug", unknown)
    people = _names(User.objects.all(), "username", {line.user for line in lines})
    sums: dict[tuple[str, str, str, str], int] = defaultdict(int)
    for line, used in lines.items():
        key = (slugs[line.project], people[line.user], board_model(line.board), line.kind)
        sums[key] += used
    in_order = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return UsageReport(tuple(UsageEntry(*key, used) for key, used in in_order), sum(sums.values()))


def board_model(board: str) -> str:
    """ "H200" of the board "H200-141GB"; an unknown board is called as its driver does."""
    known = known_boards().get(board)
    return known.model if known else board


def _projects(user: User) -> QuerySet[Membership, int]:
    return Membership.objects.filter(user=user).values_list("project_id", flat=True)


def _names(rows: QuerySet, column: str, ids: set[int]) -> dict[int, str]:  # type: ignore[type-arg]
    return dict(rows.filter(pk__in=ids).order_by().values_list("pk", column))
