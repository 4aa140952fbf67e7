"""Serializers of partitions."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from agents.contract.documents import GpuMode
from portal.api.jobs.reason_serializers import ReasonSerializer
from portal.choices import choices_from_enum
from portal.planning.partition_preview import PartitionAction, PreviewedJob, PreviewOutcome


class GpuPartSerializer(serializers.Serializer[Any]):
    """A part of a GPU, in memory slices."""

    profile = serializers.CharField(help_text="empty: the whole GPU or an MPS share")
    start = serializers.IntegerField()
    size = serializers.IntegerField()
    held = serializers.BooleanField(source="allocated")
    threads = serializers.IntegerField(help_text="percent of the SMs for an MPS share, else 0")


class PartitionStepSerializer(serializers.Serializer[Any]):
    step = serializers.ChoiceField(choices=choices_from_enum(PartitionAction), source="action")
    sentence = serializers.CharField(source="message.text")


class GpuPartitionChangeSerializer(serializers.Serializer[Any]):
    """One GPU before and after the pass."""

    node = serializers.CharField()
    gpu = serializers.IntegerField(source="index")
    gpu_uuid = serializers.CharField(source="uuid")
    mode = serializers.ChoiceField(
        choices=choices_from_enum(GpuMode), help_text="mode after the pass"
    )
    before = GpuPartSerializer(many=True)
    after = GpuPartSerializer(many=True)
    steps = PartitionStepSerializer(many=True)


class PreviewedJobSerializer(serializers.Serializer[Any]):
    job = serializers.CharField()
    fate = serializers.ChoiceField(
        choices=choices_from_enum(PreviewOutcome),
        source="outcome",
        help_text="start: at once; partition: after other slices are deleted; wait: not yet",
    )
    reason = serializers.SerializerMethodField(help_text="why it would not start at once")

    @extend_schema_field(ReasonSerializer(allow_null=True))
    def get_reason(self, outcome: PreviewedJob) -> dict[str, Any] | None:
        return outcome.reason


class PartitionPreviewSerializer(serializers.Serializer[Any]):
    warm = serializers.BooleanField(
        source="is_prewarm_on",
        help_text="whether the policy keeps warm slices; if not, what it would do if it did",
    )
    job = PreviewedJobSerializer(allow_null=True)
    changes = GpuPartitionChangeSerializer(many=True)


class PartitionPreviewQuerySerializer(serializers.Serializer[Any]):
    job = serializers.CharField(
        max_length=20,
        required=False,
        help_text="such as J-12, planned as if it were approved and released",
    )
    node = serializers.CharField(max_length=64, required=False, help_text="only this node")


class PinRequestSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=200)
