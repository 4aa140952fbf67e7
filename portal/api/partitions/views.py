"""REST views of partitions, for platform admins: preview the planner's changes, and pin GPUs."""

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.response import Response

from portal.accounts.models import TokenScope
from portal.allocations.selectors import slice_holders
from portal.api.devices.serializers import GpuSerializer
from portal.api.partitions.serializers import (
    PartitionPreviewQuerySerializer,
    PartitionPreviewSerializer,
    PinRequestSerializer,
)
from portal.api.protocol.permissions import IsPlatformAdmin
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.inventory.models import Gpu, Node
from portal.inventory.node_settings import gpu_pin, gpu_unpin
from portal.inventory.selectors import gpus
from portal.jobs.selectors import job_visible
from portal.planning.partition_preview import partition_preview

EXAMPLE = OpenApiExample(
    "A job that waits for an approval",
    response_only=True,
    value={
        "warm": False,
        "job": {"job": "J-12", "fate": "start", "reason": None},
        "changes": [
            {
                "node": "gpu01",
                "gpu": 0,
                "gpu_uuid": "GPU-1f2a",
                "mode": "mig",
                "before": [
                    {"profile": "4g.71gb", "start": 0, "size": 4, "held": True, "threads": 0}
                ],
                "after": [
                    {"profile": "4g.71gb", "start": 0, "size": 4, "held": True, "threads": 0},
                    {"profile": "3g.71gb", "start": 4, "size": 4, "held": True, "threads": 0},
                ],
                "steps": [{"step": "place", "sentence": "3g.71gb is carved beside what runs"}],
            }
        ],
    },
)


class PartitionPreviewDetail(ApiView):
    permissions = {"GET": (IsPlatformAdmin,)}

    @extend_schema(
        operation_id="partition_preview",
        parameters=[PartitionPreviewQuerySerializer],
        responses=PartitionPreviewSerializer,
        examples=[EXAMPLE],
    )
    def get(self, request: ApiRequest) -> Response:
        """The partition changes that a planning pass would make now. Nothing is changed."""
        user = request.caller
        query = request.validated_query(PartitionPreviewQuerySerializer)
        job, node = query.get("job"), query.get("node", "")
        if node and not Node.objects.filter(name=node).exists():
            raise Refused(ErrorCode.NOT_FOUND, f"There is no node {node!r}", "node")
        preview = partition_preview(job=job_visible(user, job) if job else None, node=node)
        return Response(PartitionPreviewSerializer(preview).data)


class GpuPin(ApiView):
    scopes = {"POST": TokenScope.ADMIN}
    permissions = {"POST": (IsPlatformAdmin,)}

    @extend_schema(operation_id="gpu_pin", request=PinRequestSerializer, responses=GpuSerializer)
    def post(self, request: ApiRequest, gpu: str) -> Response:
        """Keep a GPU's partitions as they are: nothing is carved, merged or changed there."""
        row, reason = _gpu(gpu), request.validated_data(PinRequestSerializer)["reason"]
        gpu_pin(gpu=row, reason=reason, actor=request.caller.username)
        return _response(request, gpu)


class GpuUnpin(ApiView):
    scopes = {"POST": TokenScope.ADMIN}
    permissions = {"POST": (IsPlatformAdmin,)}

    @extend_schema(operation_id="gpu_unpin", request=None, responses=GpuSerializer)
    def post(self, request: ApiRequest, gpu: str) -> Response:
        """Let the planner change the partitions of this GPU again."""
        gpu_unpin(gpu=_gpu(gpu), actor=request.caller.username)
        return _response(request, gpu)


def _gpu(uuid: str) -> Gpu:
    row = Gpu.objects.filter(uuid=uuid).first()
    if row is None:
        raise Refused(ErrorCode.NOT_FOUND, f"There is no GPU {uuid!r}")
    return row


def _response(request: ApiRequest, uuid: str) -> Response:
    context = {"holders": slice_holders(request.caller)}
    return Response(GpuSerializer(gpus().get(uuid=uuid), context=context).data)
