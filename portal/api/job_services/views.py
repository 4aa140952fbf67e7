"""REST views of services. Their copies are jobs; a change names the version that was read."""

from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.response import Response

from portal.api.job_services.serializers import (
    SERVICE_CHANGE_EXAMPLE,
    SERVICE_EXAMPLE,
    ServiceChangeRequestSerializer,
    ServiceCreateRequestSerializer,
    ServiceSerializer,
    ServiceSummarySerializer,
)
from portal.api.protocol.idempotency import IDEMPOTENCY_KEY, idempotent
from portal.api.protocol.openapi import LOCATION, list_response
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.throttling import SubmitThrottle
from portal.api.protocol.versions import (
    ETAG,
    IF_MATCH,
    IF_MATCH_OPTIONAL,
    if_match_number,
    stale_version_shown,
)
from portal.api.protocol.views import ApiView
from portal.job_services.models import JobService
from portal.job_services.selectors import (
    busyness_of,
    copy_rows,
    ready_jobs,
    service_visible,
    services_visible_to,
)
from portal.job_services.services import (
    canary_values,
    service_change,
    service_create,
    service_end,
    service_promote,
    values_of,
)
from portal.job_services.values import ServiceValues
from portal.jobs.selectors import readable_fields
from portal.submission.limits import request_limits

OWNER_OR_ADMIN = "owner of the service or admin of its project"


class ServiceList(ApiView):
    service_roles = {"POST": "member of the project"}

    def get_throttles(self) -> list[Any]:
        throttles = super().get_throttles()
        return [*throttles, SubmitThrottle()] if self.request.method == "POST" else throttles

    @extend_schema(operation_id="service_list", responses=list_response(ServiceSummarySerializer))
    def get(self, request: ApiRequest) -> Response:
        """The services of your projects that have not ended; all of them for a platform admin."""
        rows = list(services_visible_to(request.caller))
        context = {"ready": ready_jobs([row.pk for row in rows])}
        return Response(
            {"results": ServiceSummarySerializer(rows, many=True, context=context).data}
        )

    @extend_schema(
        operation_id="service_create",
        request=ServiceCreateRequestSerializer,
        responses={201: ServiceSerializer},
        parameters=[IDEMPOTENCY_KEY, LOCATION],
        examples=[SERVICE_EXAMPLE],
    )
    @idempotent
    def post(self, request: ApiRequest) -> Response:
        """Keep jobs of one request running, behind one address, as many as its calls need."""
        data = request.validated_data(ServiceCreateRequestSerializer)
        name, body = data.pop("name"), data.pop("request")
        row = service_create(
            actor=request.caller,
            name=name,
            body=body,
            values=ServiceValues(**data),
            limits=request_limits(),
        )
        headers = {"Location": reverse("api:service", args=[row.label])}
        return Response(_data(request, row), status=status.HTTP_201_CREATED, headers=headers)


class ServiceDetail(ApiView):
    service_roles = {"PATCH": OWNER_OR_ADMIN, "DELETE": OWNER_OR_ADMIN}

    @extend_schema(operation_id="service_show", parameters=[ETAG], responses=ServiceSerializer)
    def get(self, request: ApiRequest, service: str) -> Response:
        """One service with its copies and how busy they are; also one that has ended."""
        return _response(request, service_visible(request.caller, service))

    @extend_schema(
        operation_id="service_change",
        request=ServiceChangeRequestSerializer,
        responses=ServiceSerializer,
        parameters=[IF_MATCH, ETAG],
        examples=[SERVICE_CHANGE_EXAMPLE],
    )
    def patch(self, request: ApiRequest, service: str) -> Response:
        """Change how it is run. With another request, new copies take the place of the present
        ones, each once it is ready. Its name and its project stay. With `canary` and
        `canary_percent`, some of its calls go to another service."""
        row, version = service_visible(request.caller, service), if_match_number(request)
        data = request.validated_data(ServiceChangeRequestSerializer)
        body = data.pop("request", None)
        label, percent = data.pop("canary", None), data.pop("canary_percent", None)
        with _stale_version_shown(request, service):
            service_change(
                service=row,
                actor=request.caller,
                values=ServiceValues(**asdict(values_of(row)) | data),
                body=body,
                canary=canary_values(row, label=label, percent=percent),
                limits=request_limits(),
                version=version,
            )
        return _response(request, service_visible(request.caller, service))

    @extend_schema(
        operation_id="service_end", parameters=[IF_MATCH_OPTIONAL], responses={204: None}
    )
    def delete(self, request: ApiRequest, service: str) -> Response:
        """End it for good. Its copies answer the calls that they have, and are then cancelled.
        Repeatable."""
        row = service_visible(request.caller, service)
        version = if_match_number(request, is_required=False)
        with _stale_version_shown(request, service):
            service_end(service=row, actor=request.caller, version=version)
        return Response(status=status.HTTP_204_NO_CONTENT)


class ServicePromote(ApiView):
    service_roles = {"POST": "owner of the service"}

    @extend_schema(
        operation_id="service_promote",
        request=None,
        responses=ServiceSerializer,
        parameters=[IF_MATCH_OPTIONAL, ETAG],
    )
    def post(self, request: ApiRequest, service: str) -> Response:
        """Have it run what its canary runs, one copy after another. The canary keeps its calls
        until then, and ends."""
        row = service_visible(request.caller, service)
        version = if_match_number(request, is_required=False)
        with _stale_version_shown(request, service):
            service_promote(
                service=row, actor=request.caller, limits=request_limits(), version=version
            )
        return _response(request, service_visible(request.caller, service))


def _response(request: ApiRequest, row: JobService) -> Response:
    return Response(_data(request, row), headers={"ETag": f'"{row.version}"'})


def _data(request: ApiRequest, row: JobService) -> Any:
    fields = readable_fields(
        request.caller, row.request, owner=row.owner_id, project=row.project_id
    )
    both = [row.pk, *([row.canary_id] if row.canary_id else [])]
    context = {
        "ready": ready_jobs(both),
        "copies": copy_rows(row),
        "busyness": busyness_of(both),
        "request_fields": fields,
    }
    return ServiceSerializer(row, context=context).data


def _stale_version_shown(request: ApiRequest, ref: str) -> AbstractContextManager[None]:
    def current() -> tuple[Any, int]:
        row = service_visible(request.caller, ref)
        return _data(request, row), row.version

    return stale_version_shown(request.data, current)
