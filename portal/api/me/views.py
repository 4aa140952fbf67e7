"""REST view of the caller: their projects, roles, quotas and token."""

from collections import defaultdict

from django.db.models import Q
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from portal.accounts.models import Membership, User
from portal.api.me.serializers import (
    MeSerializer,
)
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.availability.promises import current_promises
from portal.quotas.models import Quota
from portal.quotas.selectors import visible_quotas


class MeView(ApiView):
    @extend_schema(operation_id="me", responses=MeSerializer)
    def get(self, request: ApiRequest) -> Response:
        """You, your role and quotas in each of your projects, and this call's token."""
        user = request.caller
        rows = Membership.objects.filter(user=user).select_related("project")
        mine = {
            "user": user.username,
            "is_platform_admin": user.is_platform_admin,
            "projects": rows.order_by("project__slug"),
            "token": request.token,
        }
        quotas = _quotas(user)
        projects = {row.project.slug for rows in quotas.values() for row in rows}
        promises = current_promises(projects) if projects else []
        context = {"quotas": quotas, "promises": promises}
        return Response(MeSerializer(mine, context=context).data)


def _quotas(user: User) -> dict[int, list[Quota]]:
    """The quotas that count against the user's jobs, by project."""
    counts = Q(user__isnull=True) | Q(user=user)
    quotas: dict[int, list[Quota]] = defaultdict(list)
    for row in visible_quotas(user).filter(counts, project__memberships__user=user):
        quotas[row.project_id].append(row)
    return quotas
