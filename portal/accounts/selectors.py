"""Reads who may do what: projects, roles and tokens of a user."""

from django.db.models import Prefetch, QuerySet

from portal.accounts.models import ApiToken, Membership, Project, Role, User

WORKING_ROLES = (Role.MEMBER, Role.ADMIN)


def projects_of(user: User) -> QuerySet[Project]:
    """The projects that the user is in; all of them for a platform admin. With their members."""
    people = Membership.objects.select_related("user").order_by("user__username")
    rows = Project.objects.prefetch_related(Prefetch("memberships", queryset=people))
    if user.is_platform_admin:
        return rows
    return rows.filter(pk__in=Membership.objects.filter(user=user).values("project_id"))


def projects_to_work_in(user: User) -> QuerySet[Project]:
    """The projects in which the user may start jobs. Viewers and platform admins may only look."""
    mine = Membership.objects.filter(user=user, role__in=WORKING_ROLES)
    return Project.objects.filter(pk__in=mine.values("project_id"), archived=False)


def role_in(user: User, project_id: int) -> Role | None:
    """The user's role in a project, or None."""
    row = Membership.objects.filter(user=user, project_id=project_id).first()
    return Role(row.role) if row else None


def is_project_admin(user: User, project_id: int) -> bool:
    """Whether the user runs the project; a platform admin runs every one."""
    return user.is_platform_admin or role_in(user, project_id) is Role.ADMIN


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """The user's own tokens, newest first. Expired ones stay listed until they are deleted."""
    rows: QuerySet[ApiToken] = ApiToken.objects.filter(user=user)
    return rows.order_by("-created")
