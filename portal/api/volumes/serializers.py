"""Serializers of volumes."""

from typing import Any

from drf_spectacular.utils import OpenApiExample
from rest_framework import serializers

from portal.api.protocol.moments import UtcDateTimeField
from portal.volumes.selectors import VolumeState
from portal.volumes.services import MAX_QUOTA

VOLUME_EXAMPLE = OpenApiExample(
    "data to read",
    value={
        "name": "imagenet",
        "root": "datasets",
        "subpath": "vision/imagenet",
        "read_only": True,
        "projects": ["vision"],
    },
    request_only=True,
)


class VolumeNodeSerializer(serializers.Serializer[Any]):
    """A node that offers the root of the volume now."""

    node = serializers.CharField()
    is_online = serializers.BooleanField()
    read_only = serializers.BooleanField(  # type: ignore[assignment]  # a field, not the argument
        help_text="by the policy of the node"
    )
    driver = serializers.CharField(
        help_text="of Docker volumes, whose space is not known; empty: a folder of the node"
    )
    free_mib = serializers.IntegerField(help_text="of the file system")
    total_mib = serializers.IntegerField()


class VolumeSerializer(serializers.Serializer[Any]):
    """Of a VolumeState."""

    name = serializers.CharField(source="volume.name")
    description = serializers.CharField(source="volume.description")
    root = serializers.CharField(  # type: ignore[assignment]  # a field, not the property
        source="volume.root", help_text="as the policies of nodes name it; see docs/volumes.md"
    )
    subpath = serializers.CharField(source="volume.subpath", help_text="a folder below the root")
    read_only = serializers.BooleanField(  # type: ignore[assignment]  # a field, not the argument
        source="volume.read_only"
    )
    projects = serializers.SerializerMethodField(help_text="those of your projects that may use it")
    quota_mib = serializers.IntegerField(
        source="volume.quota_mib", help_text="0: none. Told to people, not enforced"
    )
    quota_files = serializers.IntegerField(source="volume.quota_files")
    used_mib = serializers.IntegerField(
        allow_null=True, help_text="as a node measured it; null: not measured yet"
    )
    used_files = serializers.IntegerField(allow_null=True)
    is_partial = serializers.BooleanField(help_text="there is more than could be measured")
    measured_at = UtcDateTimeField(allow_null=True)
    is_over_quota = serializers.BooleanField()
    nodes = VolumeNodeSerializer(many=True)
    version = serializers.IntegerField(source="volume.version")

    def get_projects(self, state: VolumeState) -> list[str]:
        return [project.slug for project in state.volume.projects.all()]


class VolumeValuesSerializer(serializers.Serializer[Any]):
    """What can change of a volume. Fields that are left out keep their value."""

    description = serializers.CharField(max_length=200, required=False, allow_blank=True)
    read_only = serializers.BooleanField(  # type: ignore[assignment]  # a field, not the argument
        required=False
    )
    projects = serializers.ListField(
        child=serializers.CharField(max_length=40), required=False, max_length=1_000
    )
    quota_mib = serializers.IntegerField(required=False, min_value=0, max_value=MAX_QUOTA)
    quota_files = serializers.IntegerField(required=False, min_value=0, max_value=MAX_QUOTA)


class VolumeRequestSerializer(VolumeValuesSerializer):
    """A new volume: a folder that exists below a root of nodes."""

    name = serializers.CharField(max_length=63)
    root = serializers.CharField(max_length=63)  # type: ignore[assignment]  # a field
    subpath = serializers.CharField(max_length=1_024, required=False, default="", allow_blank=True)
    projects = serializers.ListField(
        child=serializers.CharField(max_length=40), max_length=1_000, help_text="at least one"
    )
