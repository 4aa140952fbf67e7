"""The caller: who they are, what they may do where, what they hold, and their token."""

from collections import defaultdict
from typing import Any

from django.db.models import Q
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.models import ApiToken, Membership, Role, User
from portal.accounts.selectors import WORKING_ROLES
from portal.api.accounts.tokens import TokenShape
from portal.api.protocol.authentication import caller
from portal.api.quotas.views import QuotaShape
from portal.quotas.models import Quota
from portal.quotas.selectors import quotas_of


class MyProjectShape(serializers.ModelSerializer[Membership]):
    slug = serializers.CharField(source="project.slug")
    name = serializers.CharField(source="project.name")
    role = serializers.ChoiceField(choices=[(str(role), str(role)) for role in Role])
    may_submit = serializers.SerializerMethodField()
    quotas = serializers.SerializerMethodField()

    class Meta:
        model = Membership
        fields = ("slug", "name", "role", "may_submit", "quotas")

    def get_may_submit(self, row: Membership) -> bool:
        return row.role in WORKING_ROLES and not row.project.archived

    @extend_schema_field(QuotaShape(many=True))
    def get_quotas(self, row: Membership) -> Any:
        """What counts against a job of yours: the project's, and your own in it."""
        return QuotaShape(self.context["quotas"][row.project_id], many=True).data


class MeShape(serializers.Serializer[Any]):
    user = serializers.CharField()
    is_platform_admin = serializers.BooleanField()
    projects = MyProjectShape(many=True)
    token = TokenShape(allow_null=True, help_text="null: signed in by a browser's session")


class Me(APIView):
    @extend_schema(operation_id="me", responses=MeShape)
    def get(self, request: Request) -> Response:
        """You, your projects with your role and quotas in each, and your token's scope and end."""
        user = caller(request)
        rows = Membership.objects.filter(user=user).select_related("project")
        mine = {
            "user": user.username,
            "is_platform_admin": user.is_platform_admin,
            "projects": rows.order_by("project__slug"),
            "token": request.auth if isinstance(request.auth, ApiToken) else None,
        }
        return Response(MeShape(mine, context={"quotas": _quotas(user)}).data)


def _quotas(user: User) -> dict[int, list[Quota]]:
    """What counts against the user's jobs, by project."""
    counts = Q(user__isnull=True) | Q(user=user)
    found: dict[int, list[Quota]] = defaultdict(list)
    for row in quotas_of(user).filter(counts, project__memberships__user=user):
        found[row.project_id].append(row)
    return found
