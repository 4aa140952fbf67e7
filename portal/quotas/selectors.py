"""Reads quotas: which rows a user may see, and how much is held."""

from django.db.models import Q, QuerySet

from portal.accounts.models import Membership, Role, User
from portal.quotas.models import Quota


def visible_quotas(user: User) -> QuerySet[Quota]:
    """The quotas that concern the user: those of their projects and their own inside them.

    Project admins see every row of their project, platform admins every row.
    """
    rows = Quota.objects.select_related("project", "user")
    if user.is_platform_admin:
        return rows.order_by("project__slug", "user__username", "model")
    mine = Membership.objects.filter(user=user)
    led = mine.filter(role=Role.ADMIN).values("project_id")
    visible = Q(user__isnull=True) | Q(user=user) | Q(project_id__in=led)
    rows = rows.filter(visible, project_id__in=mine.values("project_id"))
    return rows.order_by("project__slug", "user__username", "model")
