"""Serializers of nodes."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.allocations.holding import held_replicas
from portal.api.protocol.moments import UtcModelSerializer
from portal.inventory.models import Node
from portal.inventory.versions import node_version


class HeldReplicaSerializer(serializers.Serializer[Any]):
    replica = serializers.CharField()
    job = serializers.CharField(help_text="the uid of the job, which the portal may not know")
    label = serializers.CharField(  # type: ignore[assignment]  # hides the label of a form field
        help_text="such as J-12; empty if the portal does not know the job"
    )
    attempt = serializers.IntegerField()
    rank = serializers.IntegerField()
    state = serializers.CharField()


class NodeSerializer(UtcModelSerializer[Node]):
    cordon_by = serializers.CharField(source="cordon_actor", read_only=True)
    gpu_count = serializers.IntegerField()
    labels = serializers.ListField(child=serializers.CharField())
    taints = serializers.ListField(child=serializers.CharField())
    held_replicas = serializers.SerializerMethodField(
        help_text="what a node that holds back would end: POST …/allow-mass-removal allows it"
    )
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
            "holding_since",
            "restored_at",
            "held_replicas",
            "events_dropped",
            "fabric",
            "cpu_milli",
            "memory_mib",
            "disk_mib",
            "gpu_count",
            "created_at",
            "version",
        ]

    @extend_schema_field(HeldReplicaSerializer(many=True))
    def get_held_replicas(self, node: Node) -> list[dict[str, Any]]:
        if not node.held_replicas:
            return []
        return list(HeldReplicaSerializer(held_replicas(node), many=True).data)

    def get_version(self, node: Node) -> str:
        return node_version(node)


class NodeRequestSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=64)


class MassRemovalRequestSerializer(serializers.Serializer[Any]):
    replicas = serializers.ListField(
        child=serializers.CharField(max_length=64),
        required=False,
        help_text="those of `held_replicas` that were read: 412 if the node reports others by now",
    )


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
