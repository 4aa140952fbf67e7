"""REST view that submits many jobs in one call: all of them, or none."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import status
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.throttling import BaseThrottle

from portal.allocations.selectors import gpu_hours
from portal.api.jobs.examples import SUBMIT_EXAMPLES
from portal.api.jobs.request_serializers import (
    BulkSubmitRequestSerializer,
    DryRunQuerySerializer,
)
from portal.api.jobs.serializers import BulkDryRunSerializer, BulkSubmitSerializer
from portal.api.protocol.idempotency import IDEMPOTENCY_KEY, idempotent
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.throttling import SubmitThrottle
from portal.api.protocol.views import ApiView
from portal.jobs.models import Job
from portal.submission.limits import request_limits
from portal.submission.services import CheckedRequest, bulk_check, jobs_submit

_EXAMPLE = SUBMIT_EXAMPLES[0].value


class BulkSubmit(ApiView):
    service_roles = {"POST": "member of the project"}

    def get_throttles(self) -> list[BaseThrottle]:
        return [*super().get_throttles(), SubmitThrottle()]

    def throttle_cost(self, request: ApiRequest) -> int:
        """A call counts as many submits as it has jobs."""
        return len(_bodies(request))

    @extend_schema(
        operation_id="jobs_submit",
        parameters=[DryRunQuerySerializer, IDEMPOTENCY_KEY],
        request=BulkSubmitRequestSerializer,
        responses={
            201: BulkSubmitSerializer,
            200: OpenApiResponse(BulkDryRunSerializer, "Only with dry_run"),
        },
        examples=[
            OpenApiExample(
                "two different jobs",
                value={"jobs": [_EXAMPLE, _EXAMPLE | {"name": "train-other"}]},
                request_only=True,
            ),
            OpenApiExample(
                "the same job a hundred times",
                value={"jobs": [_EXAMPLE], "count": 100},
                request_only=True,
            ),
        ],
    )
    @idempotent
    def post(self, request: ApiRequest) -> Response:
        """Submit up to 1,000 jobs in one transaction. If one is refused, none is submitted, and
        `errors` names the fields of each refused one, such as `jobs.3.device`."""
        bodies = _bodies(request)
        user, limits = request.caller, request_limits()
        if request.validated_query(DryRunQuerySerializer)["dry_run"]:
            checked = bulk_check(user=user, bodies=bodies, limits=limits)
            return Response(BulkDryRunSerializer(_totals(checked)).data)
        jobs = jobs_submit(user=user, bodies=bodies, limits=limits)
        body = {"results": [_result(job) for job in jobs], "submitted": len(jobs)}
        return Response(body, status=status.HTTP_201_CREATED)


def _bodies(request: ApiRequest) -> list[dict[str, Any]]:
    """The requests, each as often as `count` says. Copies are one object: they are read once."""
    data = request.validated_data(BulkSubmitRequestSerializer)
    return [body for body in data["jobs"] for _ in range(data["count"])]


def _result(job: Job) -> dict[str, Any]:
    """As `BulkSubmitSerializer` has it, without a serializer for each of a thousand."""
    return {
        "id": job.label,
        "uid": str(job.uid),
        "name": job.name,
        "project": job.project.slug,
        "status": str(job.status),
        "links": {"self": reverse("api:job", [job.label])},
    }


def _totals(checked: list[CheckedRequest]) -> dict[str, Any]:
    unit_seconds = sum(each.check.units * each.request.time_limit_seconds for each in checked)
    return {
        "jobs": len(checked),
        "awaiting_approval": sum(each.check.approval is not None for each in checked),
        "units": sum(each.check.units for each in checked),
        "gpu_hours": str(gpu_hours(unit_seconds)),
    }
