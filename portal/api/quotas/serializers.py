"""Serializers of quotas."""

from typing import Any

from rest_framework import serializers

from portal.api.protocol.moments import UtcModelSerializer
from portal.quotas.figures import QuotaFigures, quota_figures
from portal.quotas.models import Quota
from portal.quotas.services import MAX_LIMIT_UNITS


class QuotaSerializer(UtcModelSerializer[Quota]):
    """`promises` of the context: what the last pass keeps for waiting jobs."""

    project = serializers.CharField(source="project.slug")
    user = serializers.CharField(source="user.username", default=None, allow_null=True)
    held_units = serializers.SerializerMethodField(
        help_text="of running and placed jobs; the same as used_units"
    )
    promised_units = serializers.SerializerMethodField(
        help_text="kept by the last planning pass for jobs that are about to start"
    )
    free_units = serializers.SerializerMethodField(
        help_text="of the limit, neither held nor promised; without what may be borrowed"
    )

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
            "held_units",
            "promised_units",
            "free_units",
            "version",
        )

    def get_held_units(self, quota: Quota) -> int:
        return self._figures(quota).held_units

    def get_promised_units(self, quota: Quota) -> int:
        return self._figures(quota).promised_units

    def get_free_units(self, quota: Quota) -> int:
        return self._figures(quota).free_units

    def _figures(self, quota: Quota) -> QuotaFigures:
        return quota_figures(quota, self.context["promises"])


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
