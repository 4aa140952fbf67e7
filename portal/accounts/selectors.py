"""Read the projects, roles and API tokens of a user."""

from allauth.mfa.models import Authenticator
from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet
from django.utils import timezone

from agents.contract.message import Message
from portal.accounts.models import ApiToken, Membership, Project, Role, User
from portal.error_codes import ErrorCode
from portal.errors import Refused

WORKING_ROLES = (Role.MEMBER, Role.ADMIN)


def projects_of(user: User) -> QuerySet[Project]:
    """The user's projects, with their members; every project for a platform admin."""
    people = Membership.objects.select_related("user").order_by("user__username")
    rows = Project.objects.prefetch_related(Prefetch("memberships", queryset=people))
    if user.is_platform_admin:
        return rows
    return rows.filter(pk__in=Membership.objects.filter(user=user).values("project_id"))


def projects_matching(user: User, words: list[str]) -> QuerySet[Project]:
    """The user's projects that have each word in their slug or name."""
    rows = projects_of(user).prefetch_related(None).order_by("slug")
    for word in words:
        rows = rows.filter(Q(slug__icontains=word) | Q(name__icontains=word))
    return rows


def visible_project(user: User, slug: str) -> Project:
    """Raises Refused(not_found), alike for an unknown project and one that the user is not in."""
    row = projects_of(user).filter(slug=slug).first()
    if row is None:
        raise Refused(ErrorCode.NOT_FOUND, "There is no such project, or you may not see it")
    return row


def active_user(username: str) -> User:
    """An active user by name. Raises Refused(not_found): ask only for an admin of a project."""
    # PostgreSQL takes no NUL in a text.
    rows = User.objects.none() if "\0" in username else User.objects.filter(username=username)
    row = rows.filter(is_active=True).first()
    if row is None:
        template = "No user named %(name)s. Enter the name they sign in with"
        sentence = Message(template, name=repr(username))
        raise Refused(ErrorCode.NOT_FOUND, sentence, "user")
    return row


def platform_admins() -> QuerySet[User]:
    """Those who run the installation."""
    return User.objects.filter(is_active=True, is_superuser=True).order_by("username")


def memberships_of(user: User) -> tuple[Membership, ...]:
    """The user's own memberships with their projects, archived ones too, by slug. One query."""
    rows = Membership.objects.filter(user=user).select_related("project")
    return tuple(rows.order_by("project__slug"))


def projects_to_work_in(user: User) -> QuerySet[Project]:
    """The projects in which the user may submit jobs. Viewers and platform admins only read."""
    mine = Membership.objects.filter(user=user, role__in=WORKING_ROLES)
    return Project.objects.filter(pk__in=mine.values("project_id"), archived=False)


def role_in(user: User, project_id: int) -> Role | None:
    """The user's role in a project; None for others."""
    row = Membership.objects.filter(user=user, project_id=project_id).first()
    return Role(row.role) if row else None


def is_project_admin(user: User, project_id: int) -> bool:
    """True for admins of the project and for platform admins."""
    return user.is_platform_admin or role_in(user, project_id) is Role.ADMIN


def is_project_worker(user: User, project_id: int) -> bool:
    """True for those who may have jobs in the project, and for platform admins."""
    return user.is_platform_admin or role_in(user, project_id) in WORKING_ROLES


def project_admins(project_id: int) -> list[str]:
    """Names of the active admins of a project."""
    rows = Membership.objects.filter(project_id=project_id, role=Role.ADMIN, user__is_active=True)
    return list(rows.order_by("user__username").values_list("user__username", flat=True))


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """The user's tokens, newest first, with expired ones that were not deleted."""
    rows: QuerySet[ApiToken] = ApiToken.objects.filter(user=user)
    return rows.order_by("-created")


def live_tokens() -> QuerySet[ApiToken]:
    """Tokens that are accepted now: those without an end, and those whose end is yet to come."""
    rows: QuerySet[ApiToken] = ApiToken.objects.filter(
        Q(expiry=None) | Q(expiry__gt=timezone.now())
    )
    return rows


def users(words: str = "") -> QuerySet[User]:
    """Everybody with an account, by name: whose name or address contains `words`, with memberships
    and whether they have a second step (`has_second_step`). Two queries."""
    steps = Authenticator.objects.filter(user=OuterRef("pk"))
    steps = steps.exclude(type=Authenticator.Type.RECOVERY_CODES)
    theirs = Membership.objects.select_related("project").order_by("project__slug")
    rows = User.objects.annotate(has_second_step=Exists(steps)).order_by("username")
    if words:
        found = Q(username__icontains=words) | Q(email__icontains=words)
        rows = rows.filter(found | Q(first_name__icontains=words) | Q(last_name__icontains=words))
    return rows.prefetch_related(Prefetch("memberships", queryset=theirs))
