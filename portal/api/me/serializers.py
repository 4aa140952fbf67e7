"""Serializers of the caller, their projects and quotas."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.accounts.models import Membership, Role
from portal.accounts.selectors import WORKING_ROLES
from portal.api.protocol.moments import UtcModelSerializer
from portal.api.quotas.serializers import QuotaSerializer
from portal.api.tokens.serializers import TokenSerializer


class MyProjectSerializer(UtcModelSerializer[Membership]):
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

    @extend_schema_field(QuotaSerializer(many=True))
    def get_quotas(self, row: Membership) -> Any:
        """The quotas that count against your jobs: the project's, and yours in it."""
        quotas = self.context["quotas"][row.project_id]
        return QuotaSerializer(quotas, many=True, context=self.context).data


class MeSerializer(serializers.Serializer[Any]):
    user = serializers.CharField()
    is_platform_admin = serializers.BooleanField()
    projects = MyProjectSerializer(many=True)
    token = TokenSerializer(allow_null=True, help_text="null for a browser session")
