"""REST views of GPUs and slices. Everyone sees what is in use; only its project sees by whom."""

from django.db.models import F, Q
from drf_spectacular.utils import extend_schema
from rest_framework.generics import GenericAPIView
from rest_framework.response import Response

from portal.allocations.selectors import slice_holders
from portal.api.devices.serializers import (
    DeviceQuerySerializer,
    GpuSerializer,
    SliceSerializer,
)
from portal.api.protocol.pagination import NamePagination
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.inventory.models import Gpu, Slice
from portal.inventory.selectors import gpus, slices


class GpuList(ApiView, GenericAPIView[Gpu]):
    pagination_class = NamePagination
    serializer_class = GpuSerializer
    ordering = ("node_name", "index")

    @extend_schema(
        operation_id="gpu_list",
        parameters=[DeviceQuerySerializer],
        responses=GpuSerializer(many=True),
    )
    def get(self, request: ApiRequest) -> Response:
        """All GPUs, by node and index."""
        rows = gpus().annotate(node_name=F("node__name")).filter(**_node_filter(request))
        page = self.paginate_queryset(rows) or []
        context = {"holders": slice_holders(request.caller, condition=Q(slice__gpu__in=page))}
        return self.get_paginated_response(GpuSerializer(page, many=True, context=context).data)


class SliceList(ApiView, GenericAPIView[Slice]):
    pagination_class = NamePagination
    serializer_class = SliceSerializer
    ordering = ("node_name", "gpu__index", "start", "id")

    @extend_schema(
        operation_id="slice_list",
        parameters=[DeviceQuerySerializer],
        responses=SliceSerializer(many=True),
    )
    def get(self, request: ApiRequest) -> Response:
        """All live slices, by node, GPU and position on the board."""
        rows = slices().annotate(node_name=F("gpu__node__name")).filter(**_node_filter(request))
        page = self.paginate_queryset(rows) or []
        context = {"holders": slice_holders(request.caller, condition=Q(slice__in=page))}
        return self.get_paginated_response(SliceSerializer(page, many=True, context=context).data)


def _node_filter(request: ApiRequest) -> dict[str, str]:
    node = request.validated_query(DeviceQuerySerializer).get("node")
    return {"node_name": node} if node else {}
