"""Serializers of quotas."""

from typing import Any

from rest_framework import serializers

from portal.quotas.models import Quota
from portal.quotas.services import MAX_LIMIT_UNITS


class QuotaSerializer(serializers.ModelSerializer[Quota]):
    project = serializers.CharField(source="project.slug")
    user = serializers.CharField(source="user.username", default=None, allow_null=True)

    class Meta:
        model = Quota
        fields = (
            "project",
            "user",
            "model",
            "limit_units",
            "borrow_units",
            "lend_units",
            "used_units",
            "version",
        )


class QuotaRequestSerializer(serializers.Serializer[Any]):
    limit_units = serializers.IntegerField(min_value=0, max_value=MAX_LIMIT_UNITS)
    model = serializers.CharField(
        max_length=128,
        default="",
        allow_blank=True,
        help_text="GPU model, such as H200; empty: any model",
    )
    borrow_units = serializers.IntegerField(
        min_value=0,
        max_value=MAX_LIMIT_UNITS,
        required=False,
        help_text="only for the quota of a whole project",
    )
    lend_units = serializers.IntegerField(
        min_value=0,
        max_value=MAX_LIMIT_UNITS,
        required=False,
        help_text="only for the quota of a whole project",
    )


class QuotaQuerySerializer(serializers.Serializer[Any]):
    model = serializers.CharField(max_length=128, default="", allow_blank=True)
