"""Serializers of nodes."""

from typing import Any

from rest_framework import serializers

from portal.inventory.models import Node
from portal.inventory.versions import node_version


class NodeSerializer(serializers.ModelSerializer[Node]):
    cordon_by = serializers.CharField(source="cordon_actor", read_only=True)
    gpu_count = serializers.IntegerField()
    labels = serializers.ListField(child=serializers.CharField())
    taints = serializers.ListField(child=serializers.CharField())
    version = serializers.SerializerMethodField(
        help_text="of the settings and the status, not of reports: the ETag, for If-Match"
    )

    class Meta:
        model = Node
        fields = [
            "name",
            "status",
            "schedulable",
            "cordon_reason",
            "cordon_by",
            "labels",
            "taints",
            "taint_reason",
            "last_seen_at",
            "revoked_at",
            "frozen_at",
            "events_dropped",
            "fabric",
            "cpu_milli",
            "memory_mib",
            "disk_mib",
            "gpu_count",
            "created_at",
            "version",
        ]

    def get_version(self, node: Node) -> str:
        return node_version(node)


class NodeRequestSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=64)


class CordonRequestSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=200)


class NodeChangeSerializer(serializers.Serializer[Any]):
    """Fields that are left out keep their value. A cordon or a taint needs a reason."""

    schedulable = serializers.BooleanField(required=False)
    cordon_reason = serializers.CharField(
        max_length=200, required=False, default="", allow_blank=True
    )
    labels = serializers.ListField(child=serializers.CharField(max_length=128), required=False)
    taints = serializers.ListField(child=serializers.CharField(max_length=128), required=False)
    taint_reason = serializers.CharField(
        max_length=200, required=False, default="", allow_blank=True
    )


class JoinTokenSerializer(serializers.Serializer[Any]):
    """The only response that contains the join token."""

    node = NodeSerializer()
    join_token = serializers.CharField()
