"""Serializers of usage and budgets."""

from typing import Any

from rest_framework import serializers

from portal.api.protocol.moments import UtcDateTimeField

# What usage can be split by, in this order.
PARTS = ("project", "user", "model", "kind")


class UsageRowSerializer(serializers.Serializer[Any]):
    """One sum. Parts that it is not split by are null."""

    project = serializers.CharField(allow_null=True)
    user = serializers.CharField(allow_null=True)
    model = serializers.CharField(allow_null=True)
    kind = serializers.CharField(allow_null=True, help_text="gpu, mig or mps")
    unit_seconds = serializers.IntegerField(help_text="56,000 units are one GPU")
    gpu_hours = serializers.CharField(help_text="rounded up to four decimals")


class BudgetUsageSerializer(serializers.Serializer[Any]):
    """`forecast_unit_seconds` is the use at the budget's end, at the mean pace of the last
    `forecast_over_seconds`. Both are null with less than a day of recorded use."""

    project = serializers.CharField()
    user = serializers.CharField(allow_null=True)
    starts_at = UtcDateTimeField()
    ends_at = UtcDateTimeField()
    limit_unit_seconds = serializers.IntegerField()
    used_unit_seconds = serializers.IntegerField()
    held_unit_seconds = serializers.IntegerField(help_text="what running work may still use")
    forecast_unit_seconds = serializers.IntegerField(allow_null=True)
    forecast_over_seconds = serializers.IntegerField(allow_null=True)
    runs_out_at = UtcDateTimeField(allow_null=True)


class UsageSerializer(serializers.Serializer[Any]):
    """Use in [from, to). Running jobs are counted up to `counted_until`."""

    to = UtcDateTimeField()
    counted_until = UtcDateTimeField()
    of = serializers.CharField()
    unit_seconds = serializers.IntegerField()
    gpu_hours = serializers.CharField()
    by = serializers.ListField(child=serializers.ChoiceField(choices=PARTS))
    results = UsageRowSerializer(many=True)
    budgets = BudgetUsageSerializer(many=True)

    def get_fields(self) -> dict[str, Any]:
        """`from` is a Python keyword, so the field cannot be declared above."""
        return {"from": UtcDateTimeField(), **super().get_fields()}
