"""Serializers of projects and members."""

from typing import Any

from rest_framework import serializers

from agents.contract.egress import EgressPolicy
from portal.accounts.models import Membership, Project, Role
from portal.accounts.services import (
    APPROVAL_BOUNDS,
    BOOLEAN_BOUNDS,
)
from portal.api.protocol.moments import UtcModelSerializer


class MemberSerializer(UtcModelSerializer[Membership]):
    user = serializers.CharField(source="user.username")

    class Meta:
        model = Membership
        fields = ("user", "role")


class ProjectSerializer(UtcModelSerializer[Project]):
    members = MemberSerializer(source="memberships", many=True)

    class Meta:
        model = Project
        fields = (
            "slug",
            "name",
            "archived",
            "created_at",
            "members",
            *APPROVAL_BOUNDS,
            *BOOLEAN_BOUNDS,
            "egress",
        )


class ProjectRequestSerializer(serializers.Serializer[Any]):
    slug = serializers.CharField(max_length=40)
    name = serializers.CharField(max_length=100, required=False, default="")


class EgressRequestSerializer(serializers.Serializer[Any]):
    egress = serializers.ChoiceField(choices=[(str(each), str(each)) for each in EgressPolicy])


class MemberRequestSerializer(serializers.Serializer[Any]):
    role = serializers.ChoiceField(choices=[(str(r), str(r)) for r in Role])
