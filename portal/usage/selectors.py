"""Read usage as far as a user may see it: their own, that of a project, or that of all."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from agents.contract.boards import known_boards
from portal.accounts.models import Membership, Project, Role, User
from portal.accounts.selectors import memberships_of
from portal.allocations.models import Allocation
from portal.allocations.querysets import AllocationQuerySet
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.usage.ledger import UsageKey, UsageWindow, unit_seconds_by_key

ME, ALL, IN = "me", "all", "project:"


@dataclass(frozen=True, slots=True)
class UsageScope:
    """Whose usage to read."""

    # As in a URL: "me", "all" or "project:<slug>".
    name: str
    rows: AllocationQuerySet[Allocation]
    project: Project | None = None
    # The user is an admin of the project, or of the platform.
    is_admin: bool = False


@dataclass(frozen=True, slots=True)
class VisibleProjects:
    """The projects whose usage a user may see, by slug."""

    user: User
    projects: Mapping[str, Project]
    # Slugs of those that the user is an admin of.
    administered: frozenset[str]


@dataclass(frozen=True, slots=True)
class UsageEntry:
    """What one user used in one project on one kind of slice of one GPU model."""

    project: str
    user: str
    model: str
    kind: str
    unit_seconds: int


@dataclass(frozen=True, slots=True)
class UsageReport:
    """The usage of a window by entry, largest first, and its sum."""

    entries: tuple[UsageEntry, ...] = ()
    unit_seconds: int = 0

    def grouped(
        self, key: Callable[[UsageEntry], tuple[str, ...]]
    ) -> list[tuple[tuple[str, ...], int]]:
        """Unit-seconds by `key`, largest first."""
        sums: dict[tuple[str, ...], int] = defaultdict(int)
        for entry in self.entries:
            sums[key(entry)] += entry.unit_seconds
        return sorted(sums.items(), key=lambda item: (-item[1], item[0]))


def visible_allocations(user: User) -> AllocationQuerySet[Allocation]:
    """The allocations of the user's projects; all of them for a platform admin."""
    if user.is_platform_admin:
        return Allocation.objects.all()
    return Allocation.objects.filter(project_id__in=_project_ids(user))


def visible_projects(
    user: User, memberships: Sequence[Membership] | None = None
) -> VisibleProjects:
    """The projects whose usage the user may see, archived ones included. One query; for a user who
    is no platform admin none with `memberships`, all of theirs."""
    if user.is_platform_admin:
        projects = {row.slug: row for row in Project.objects.order_by("slug")}
        return VisibleProjects(user, projects, frozenset(projects))
    rows = memberships_of(user) if memberships is None else memberships
    projects = {row.project.slug: row.project for row in rows}
    administered = frozenset(r.project.slug for r in rows if r.role == Role.ADMIN)
    return VisibleProjects(user, projects, administered)


def usage_scope(projects: VisibleProjects, name: str) -> UsageScope:
    """Raises Refused(not_found), alike for a project that does not exist, one that the user may not
    see, and `all` without the right to it."""
    user = projects.user
    if name == ME:
        return UsageScope(ME, visible_allocations(user).filter(user=user))
    if name == ALL and user.is_platform_admin:
        return UsageScope(ALL, visible_allocations(user), is_admin=True)
    slug = name.removeprefix(IN)
    project = projects.projects.get(slug) if name.startswith(IN) else None
    if project is None:
        raise Refused(ErrorCode.NOT_FOUND, "There is no such project, or you may not see it", "of")
    rows = Allocation.objects.filter(project=project)
    return UsageScope(name, rows, project, slug in projects.administered)


def usage_report(
    rows: QuerySet[Allocation], window: UsageWindow, projects: Iterable[Project] = ()
) -> UsageReport:
    """What these allocations used in the window. Four queries; three if `projects` has the projects
    of all of them."""
    return named_usage(unit_seconds_by_key(rows, window), projects)


def named_usage(
    usage_by_key: Mapping[UsageKey, int], projects: Iterable[Project] = ()
) -> UsageReport:
    """The report of a ledger's sums, with names in place of ids."""
    slugs = {project.pk: project.slug for project in projects}
    if missing := {key.project for key in usage_by_key} - slugs.keys():
        slugs |= _names(Project.objects.all(), "slug", missing)
    usernames = _names(User.objects.all(), "username", {key.user for key in usage_by_key})
    sums: dict[tuple[str, str, str, str], int] = defaultdict(int)
    for key, used in usage_by_key.items():
        names = (slugs[key.project], usernames[key.user], board_model(key.board), key.kind)
        sums[names] += used
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return UsageReport(
        tuple(UsageEntry(*names, used) for names, used in ordered), sum(sums.values())
    )


def board_model(board: str) -> str:
    """ "H200" of the board "H200-141GB"; the name itself of an unknown board."""
    known = known_boards().get(board)
    return known.model if known else board


def _project_ids(user: User) -> QuerySet[Membership, int]:
    return Membership.objects.filter(user=user).values_list("project_id", flat=True)


def _names(rows: QuerySet, column: str, ids: set[int]) -> dict[int, str]:  # type: ignore[type-arg]
    return dict(rows.filter(pk__in=ids).order_by().values_list("pk", column))
