"""Read the quotas that a user may see."""

from django.db.models import Q, QuerySet

from portal.accounts.models import Membership, Role, User
from portal.quotas.models import Quota


def visible_quotas(user: User) -> QuerySet[Quota]:
    """The quotas of the user's projects, and their own within them.

    Project admins see every row of their project, platform admins every row.
    """
    rows = Quota.objects.select_related("project", "user")
    if user.is_platform_admin:
        return rows.order_by("project__slug", "user__username", "model")
    memberships = Membership.objects.filter(user=user)
    administered = memberships.filter(role=Role.ADMIN).values("project_id")
    visible = Q(user__isnull=True) | Q(user=user) | Q(project_id__in=administered)
    rows = rows.filter(visible, project_id__in=memberships.values("project_id"))
    return rows.order_by("project__slug", "user__username", "model")
