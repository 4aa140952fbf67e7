"""REST view of what the devices of a job did, over its whole life."""

from datetime import UTC
from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.response import Response

from portal.allocations.models import Allocation
from portal.api.protocol.moments import UtcDateTimeField
from portal.api.protocol.openapi import list_response
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.jobs.models import Attempt
from portal.jobs.selectors import job_visible
from portal.telemetry.device_history import DeviceHistory, DevicePoint, device_history

MAX_DEVICES = 16


class TelemetryQuerySerializer(serializers.Serializer[Any]):
    attempt = serializers.IntegerField(
        min_value=1, max_value=1 << 31, required=False, help_text="default: the last one"
    )
    after = serializers.IntegerField(
        min_value=0, max_value=1_000_000, default=0, help_text="the `next_after` of the page before"
    )


class DevicePointSerializer(serializers.Serializer[DevicePoint]):
    """The highest values of `minutes_each` minutes; null where nothing was measured."""

    at = UtcDateTimeField(source="minute")
    active_percent = serializers.IntegerField(allow_null=True)
    memory_used_mib = serializers.IntegerField(allow_null=True)
    temperature_c = serializers.IntegerField(
        allow_null=True, help_text="of a whole GPU: no driver measures it for a slice"
    )
    power_mw = serializers.IntegerField(allow_null=True, help_text="the same")
    missing = serializers.DictField(
        source="why", child=serializers.CharField(), help_text="by name: why it was not measured"
    )


class JobDeviceSerializer(serializers.Serializer[Any]):
    rank = serializers.IntegerField(source="replica.rank")
    node = serializers.CharField(source="replica.node.name")
    gpu = serializers.IntegerField(source="slice.gpu.index")
    kind = serializers.CharField(source="slice.kind", help_text="gpu, mig or mps")
    profile = serializers.CharField(source="slice.profile", help_text="of a MIG slice; else empty")
    memory_total_mib = serializers.SerializerMethodField(help_text="0 if not measured")
    peak_memory_mib = serializers.SerializerMethodField(help_text="0 if not measured")
    points = serializers.SerializerMethodField(help_text="the oldest first, at most 1,000")

    def _points(self, row: Allocation) -> list[DevicePoint]:
        history: DeviceHistory = self.context["history"]
        return list(history.points.get(row.pk, ()))

    def get_memory_total_mib(self, row: Allocation) -> int:
        return max((each.memory_total_mib or 0 for each in self._points(row)), default=0)

    def get_peak_memory_mib(self, row: Allocation) -> int:
        return max((each.memory_used_mib or 0 for each in self._points(row)), default=0)

    @extend_schema_field(DevicePointSerializer(many=True))
    def get_points(self, row: Allocation) -> list[dict[str, Any]]:
        return [_point_data(point) for point in self._points(row)]


def _point_data(point: DevicePoint) -> dict[str, Any]:
    """As the serializer writes it, which is slow for thousands."""
    return {
        "at": point.minute.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "active_percent": point.active_percent,
        "memory_used_mib": point.memory_used_mib,
        "temperature_c": point.temperature_c,
        "power_mw": point.power_mw,
        "missing": dict(point.why),
    }


class JobTelemetryView(ApiView):
    @extend_schema(
        operation_id="job_telemetry",
        parameters=[TelemetryQuerySerializer],
        responses=list_response(
            JobDeviceSerializer,
            minutes_each=serializers.IntegerField(
                help_text="how many minutes a point stands for: 1, 10, 60 or 1440; older than 30 "
                "days 60 at least"
            ),
            next_after=serializers.IntegerField(allow_null=True),
        ),
    )
    def get(self, request: ApiRequest, job: str) -> Response:
        """What each device of one attempt did: activity, memory, temperature and power, as the
        node's agent measured them. At most 16 devices by rank and GPU."""
        query = request.validated_query(TelemetryQuerySerializer)
        row = job_visible(request.caller, job)
        attempts = Attempt.objects.filter(job=row).order_by("-number")
        if number := query.get("attempt"):
            attempts = attempts.filter(number=number)
        held = Allocation.objects.filter(
            replica__attempt=attempts.values("pk")[:1], slice__isnull=False
        ).select_related("replica__node", "slice__gpu")
        ordered = held.order_by("replica__rank", "slice__gpu__index", "pk")
        after = query["after"]
        rows = list(ordered[after : after + MAX_DEVICES + 1])
        devices = rows[:MAX_DEVICES]
        history = device_history(devices)
        data = JobDeviceSerializer(devices, many=True, context={"history": history}).data
        return Response(
            {
                "results": data,
                "minutes_each": history.minutes_each,
                "next_after": after + MAX_DEVICES if len(rows) > MAX_DEVICES else None,
            }
        )
