"""Serializers of requests for higher limits."""

from typing import Any

from rest_framework import serializers

from portal.api.protocol.moments import UtcModelSerializer
from portal.quotas.models import LimitRequest


class LimitAskSerializer(serializers.Serializer[Any]):
    note = serializers.CharField(
        max_length=200, default="", allow_blank=True, help_text="for the admin who decides"
    )


class LimitAnswerSerializer(serializers.Serializer[Any]):
    answer = serializers.CharField(
        max_length=200, default="", allow_blank=True, help_text="for the asker"
    )


class LimitRequestSerializer(UtcModelSerializer[LimitRequest]):
    job = serializers.CharField(source="job.label")
    project = serializers.CharField(source="project.slug")
    asker = serializers.CharField(source="asker.username")
    user = serializers.CharField(
        source="user.username",
        default=None,
        allow_null=True,
        help_text="whose limit; null for that of the project",
    )
    decided_by = serializers.CharField(source="decider")
    limit_units = serializers.IntegerField(
        allow_null=True, help_text="the quota asked for; null for a budget or a cap"
    )

    class Meta:
        model = LimitRequest
        fields = (
            "id",
            "job",
            "project",
            "asker",
            "code",
            "user",
            "model",
            "limit_units",
            "note",
            "status",
            "answer",
            "decided_by",
            "created_at",
            "decided_at",
        )
