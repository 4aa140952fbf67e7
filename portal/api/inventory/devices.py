"""GPUs and slices over REST. Everyone sees what is held; by whom only people of that project."""

from typing import Any

from django.db.models import F, Q
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.jobs.responses import asked
from portal.api.protocol.authentication import caller
from portal.api.protocol.content import ByName
from portal.inventory.models import Gpu, Slice
from portal.inventory.selectors import Holder, gpus, holders, slices


class HolderShape(serializers.Serializer[Any]):
    job = serializers.SerializerMethodField(help_text="such as J-12")
    name = serializers.CharField()
    project = serializers.CharField()
    owner = serializers.CharField()
    rank = serializers.IntegerField()

    def get_job(self, holder: Holder) -> str:
        return holder.job


class SliceShape(serializers.ModelSerializer[Slice]):
    """The context holds `holders`: by slice id."""

    node = serializers.CharField(source="gpu.node.name")
    gpu = serializers.IntegerField(source="gpu.index")
    gpu_uuid = serializers.CharField(source="gpu.uuid")
    held = serializers.SerializerMethodField()
    holder = serializers.SerializerMethodField(help_text="null too where you may not know")

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

    @extend_schema_field(HolderShape(allow_null=True))
    def get_holder(self, row: Slice) -> Any:
        holder = self.context["holders"].get(row.pk)
        return HolderShape(holder).data if holder and holder.job else None


class GpuShape(serializers.ModelSerializer[Gpu]):
    node = serializers.CharField(source="node.name")
    slices = SliceShape(source="live_slices", many=True)

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


class DeviceQuery(serializers.Serializer[Any]):
    node = serializers.CharField(max_length=64, required=False, help_text="only on this node")


class GpuList(GenericAPIView[Gpu]):
    pagination_class = ByName
    serializer_class = GpuShape
    ordering = ("node_name", "index")

    @extend_schema(operation_id="gpu_list", parameters=[DeviceQuery], responses=GpuShape(many=True))
    def get(self, request: Request) -> Response:
        """By node and index."""
        rows = gpus().annotate(node_name=F("node__name")).filter(**_asked(request))
        page = self.paginate_queryset(rows) or []
        context = {"holders": holders(caller(request), of=Q(slice__gpu__in=page))}
        return self.get_paginated_response(GpuShape(page, many=True, context=context).data)


class SliceList(GenericAPIView[Slice]):
    pagination_class = ByName
    serializer_class = SliceShape
    ordering = ("node_name", "gpu__index", "start", "id")

    @extend_schema(
        operation_id="slice_list", parameters=[DeviceQuery], responses=SliceShape(many=True)
    )
    def get(self, request: Request) -> Response:
        """Live ones, by node and GPU, in the order in which they sit on the board."""
        rows = slices().annotate(node_name=F("gpu__node__name")).filter(**_asked(request))
        page = self.paginate_queryset(rows) or []
        context = {"holders": holders(caller(request), of=Q(slice__in=page))}
        return self.get_paginated_response(SliceShape(page, many=True, context=context).data)


def _asked(request: Request) -> dict[str, str]:
    node = asked(DeviceQuery, request.query_params).get("node")
    return {"node_name": node} if node else {}
