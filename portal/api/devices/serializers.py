"""Serializers of GPUs and slices."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.allocations.selectors import SliceHolder
from portal.api.protocol.moments import UtcModelSerializer
from portal.inventory.models import Gpu, Slice


class HolderSerializer(serializers.Serializer[Any]):
    job = serializers.SerializerMethodField(help_text="such as J-12")
    name = serializers.CharField()
    project = serializers.CharField()
    owner = serializers.CharField()
    rank = serializers.IntegerField()

    def get_job(self, holder: SliceHolder) -> str:
        return holder.job


class SliceSerializer(UtcModelSerializer[Slice]):
    """The context has `holders`, by slice id."""

    node = serializers.CharField(source="gpu.node.name")
    gpu = serializers.IntegerField(source="gpu.index")
    gpu_uuid = serializers.CharField(source="gpu.uuid")
    held = serializers.SerializerMethodField()
    holder = serializers.SerializerMethodField(
        help_text="null if free, or if you may not see by whom it is used"
    )

    class Meta:
        model = Slice
        fields = [
            "id",
            "node",
            "gpu",
            "gpu_uuid",
            "kind",
            "profile",
            "start",
            "size",
            "memory_mib",
            "units",
            "threads",
            "status",
            "busy",
            "problem",
            "held",
            "holder",
            "created_at",
            "ready_at",
        ]

    def get_held(self, row: Slice) -> bool:
        return row.pk in self.context["holders"]

    @extend_schema_field(HolderSerializer(allow_null=True))
    def get_holder(self, row: Slice) -> Any:
        holder = self.context["holders"].get(row.pk)
        return HolderSerializer(holder).data if holder and holder.job else None


class GpuSerializer(UtcModelSerializer[Gpu]):
    node = serializers.CharField(source="node.name")
    slices = SliceSerializer(source="live_slices", many=True)
    pinned_by = serializers.CharField(source="pin_actor", read_only=True)
    pinned_because = serializers.CharField(source="pin_reason", read_only=True)

    class Meta:
        model = Gpu
        fields = [
            "uuid",
            "node",
            "index",
            "board",
            "product_name",
            "memory_mib",
            "desired_mode",
            "observed_mode",
            "health",
            "health_reason",
            "busy",
            "pci_bus_id",
            "numa_node",
            "pinned",
            "pinned_by",
            "pinned_because",
            "settles_at",
            "slices",
        ]


class DeviceQuerySerializer(serializers.Serializer[Any]):
    node = serializers.CharField(max_length=64, required=False, help_text="only on this node")
