"""Partitions over REST, for platform admins: what the planner would do, and what it must leave."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.contract.documents import GpuMode
from portal.accounts.models import Scope
from portal.accounts.rights import require_platform_admin
from portal.api.inventory.devices import GpuShape
from portal.api.jobs.reason_serializers import ReasonShape
from portal.api.protocol.authentication import caller
from portal.errors import Refused
from portal.inventory.models import Gpu, Node, words
from portal.inventory.node_settings import gpu_pin, gpu_unpin
from portal.inventory.selectors import gpus, holders
from portal.jobs.selectors import job_visible
from portal.planning.partition_preview import Fate, JobFate, Step, partition_preview


class PartShape(serializers.Serializer[Any]):
    """A part of a GPU, in memory slices."""

    profile = serializers.CharField(help_text="empty: the whole GPU, or an MPS share of it")
    start = serializers.IntegerField()
    size = serializers.IntegerField()
    held = serializers.BooleanField()
    threads = serializers.IntegerField(help_text="percent, of an MPS share; else 0")


class StepShape(serializers.Serializer[Any]):
    step = serializers.ChoiceField(choices=words(Step))
    sentence = serializers.CharField()


class ChangeShape(serializers.Serializer[Any]):
    """One GPU before and after."""

    node = serializers.CharField()
    gpu = serializers.IntegerField(source="index")
    gpu_uuid = serializers.CharField(source="uuid")
    mode = serializers.ChoiceField(choices=words(GpuMode), help_text="afterwards")
    before = PartShape(many=True)
    after = PartShape(many=True)
    steps = StepShape(many=True)


class JobFateShape(serializers.Serializer[Any]):
    job = serializers.CharField()
    fate = serializers.ChoiceField(
        choices=words(Fate),
        help_text="start: at once. partition: once what is in its way is gone. wait: not yet",
    )
    reason = serializers.SerializerMethodField(help_text="why it would not start at once")

    @extend_schema_field(ReasonShape(allow_null=True))
    def get_reason(self, found: JobFate) -> dict[str, Any] | None:
        return found.reason


class PartitionPreviewShape(serializers.Serializer[Any]):
    warm = serializers.BooleanField(
        help_text="whether the policy prepares slices; else this is what it would, if switched on"
    )
    job = JobFateShape(allow_null=True)
    changes = ChangeShape(many=True)


class PreviewQuery(serializers.Serializer[Any]):
    job = serializers.CharField(
        max_length=20, required=False, help_text="J-12: as if it were approved and released"
    )
    node = serializers.CharField(max_length=64, required=False, help_text="only this node")


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


class PartitionPreview(APIView):
    @extend_schema(
        operation_id="partition_preview",
        parameters=[PreviewQuery],
        responses=PartitionPreviewShape,
        examples=[EXAMPLE],
    )
    def get(self, request: Request) -> Response:
        """What one planning pass would do with partitions now. Changes nothing."""
        user = caller(request)
        require_platform_admin(user)
        query = PreviewQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        job, node = query.validated_data.get("job"), query.validated_data.get("node", "")
        if node and not Node.objects.filter(name=node).exists():
            raise Refused("not_found", f"There is no node {node!r}", "node", 404)
        found = partition_preview(job=job_visible(user, job) if job else None, node=node)
        return Response(PartitionPreviewShape(found).data)


class PinBody(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=200)


class GpuPin(APIView):
    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="gpu_pin", request=PinBody, responses=GpuShape)
    def post(self, request: Request, gpu: str) -> Response:
        """Keep its partitions as they are: nothing is carved, merged or changed there."""
        row = _asked(request, gpu)
        body = PinBody(data=request.data)
        body.is_valid(raise_exception=True)
        reason = body.validated_data["reason"]
        gpu_pin(gpu=row, reason=reason, actor=caller(request).username)
        return _shown(request, gpu)


class GpuUnpin(APIView):
    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="gpu_unpin", request=None, responses=GpuShape)
    def post(self, request: Request, gpu: str) -> Response:
        gpu_unpin(gpu=_asked(request, gpu), actor=caller(request).username)
        return _shown(request, gpu)


def _asked(request: Request, uuid: str) -> Gpu:
    """The GPU, for platform admins only."""
    require_platform_admin(caller(request))
    row = Gpu.objects.filter(uuid=uuid).first()
    if row is None:
        raise Refused("not_found", f"There is no GPU {uuid!r}", "", 404)
    return row


def _shown(request: Request, uuid: str) -> Response:
    context = {"holders": holders(caller(request))}
    return Response(GpuShape(gpus().get(uuid=uuid), context=context).data)
