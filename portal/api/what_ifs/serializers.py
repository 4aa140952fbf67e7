"""Serializers of what-ifs and their outcomes."""

from typing import Any

from rest_framework import serializers

from portal.api.protocol.moments import UtcModelSerializer
from portal.what_if.models import WhatIf, WhatIfStatus

CHANGE_HELP = (
    "Each change is an object with a kind: quota (project, units, user, model), "
    "nodes (count, like), without (node), layout (node, gpu, profiles), mode (model, mode), "
    "policy (name, value)."
)


class WaitStatisticsSerializer(serializers.Serializer[Any]):
    jobs = serializers.IntegerField()
    mean_seconds = serializers.IntegerField()
    p50_seconds = serializers.IntegerField()
    p95_seconds = serializers.IntegerField()
    longest_seconds = serializers.IntegerField()


class ReplaySerializer(serializers.Serializer[Any]):
    jobs = serializers.IntegerField()
    ended = serializers.IntegerField()
    left_waiting = serializers.IntegerField()
    refused = serializers.IntegerField()
    withdrawn = serializers.IntegerField()
    waits = WaitStatisticsSerializer()
    waits_by_project = serializers.DictField(child=WaitStatisticsSerializer())
    waits_by_priority = serializers.DictField(child=WaitStatisticsSerializer())
    held_for = serializers.DictField(
        child=serializers.IntegerField(), help_text="seconds waited, by reason code"
    )
    allocated = serializers.FloatField(help_text="mean fraction of the available GPUs, 0 to 1")
    allocated_by_model = serializers.DictField(child=serializers.FloatField())
    gpus = serializers.IntegerField()
    preemptions = serializers.IntegerField()
    last_ended_at = serializers.IntegerField(help_text="seconds since the epoch")


class ReplayAccuracySerializer(serializers.Serializer[Any]):
    """How well the replay of the unchanged cluster reproduces the recorded waits."""

    jobs = serializers.IntegerField()
    recorded_mean_seconds = serializers.IntegerField()
    replayed_mean_seconds = serializers.IntegerField()
    recorded_p50_seconds = serializers.IntegerField()
    replayed_p50_seconds = serializers.IntegerField()


class ComparisonSerializer(serializers.Serializer[Any]):
    since = serializers.IntegerField(help_text="seconds since the epoch")
    until = serializers.IntegerField(help_text="seconds since the epoch")
    changes = serializers.ListField(child=serializers.CharField(), help_text="as sentences")
    baseline = ReplaySerializer()
    changed = ReplaySerializer()
    differences = serializers.DictField(child=serializers.FloatField())
    accuracy = ReplayAccuracySerializer()


class WhatIfSummarySerializer(UtcModelSerializer[WhatIf]):
    """A what-if without its outcome."""

    asked_by = serializers.CharField(source="requester.username")
    status = serializers.ChoiceField(choices=WhatIfStatus.choices, source="shown_status")
    sentence = serializers.CharField(source="shown_sentence")
    changes = serializers.ListField(child=serializers.DictField(), help_text=CHANGE_HELP)

    class Meta:
        model = WhatIf
        fields: tuple[str, ...] = (
            "id",
            "asked_by",
            "days",
            "changes",
            "status",
            "progress",
            "sentence",
            "created_at",
            "finished_at",
        )


class WhatIfSerializer(WhatIfSummarySerializer):
    """A what-if with its outcome, null until it is done."""

    outcome = ComparisonSerializer(allow_null=True)

    class Meta(WhatIfSummarySerializer.Meta):
        fields = (*WhatIfSummarySerializer.Meta.fields, "outcome")


class WhatIfRequestSerializer(serializers.Serializer[Any]):
    days = serializers.IntegerField(default=7, min_value=1, max_value=90)
    changes = serializers.ListField(child=serializers.DictField(), help_text=CHANGE_HELP)
