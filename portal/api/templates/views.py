"""REST views of request templates. A change names the version it was made from."""

from contextlib import AbstractContextManager
from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.response import Response

from portal.accounts.selectors import visible_project
from portal.api.protocol.idempotency import IDEMPOTENCY_KEY, idempotent
from portal.api.protocol.openapi import LOCATION, list_response
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.versions import (
    ETAG,
    IF_MATCH,
    IF_MATCH_OPTIONAL,
    if_match_number,
    stale_version_shown,
)
from portal.api.protocol.views import ApiView
from portal.api.templates.serializers import (
    TEMPLATE_CHANGE_EXAMPLE,
    TEMPLATE_EXAMPLE,
    TemplateChangeSerializer,
    TemplateCreateRequestSerializer,
    TemplateQuerySerializer,
    TemplateSerializer,
)
from portal.catalogue.models import Template
from portal.catalogue.selectors import visible_template, visible_templates
from portal.catalogue.services import template_delete, template_save, template_update
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.submission.limits import request_limits

TEMPLATE_ROLE = "author of the template or admin of its project"


class TemplateList(ApiView):
    service_roles = {"POST": "member of the project; without a project, platform admin"}

    @extend_schema(
        operation_id="template_list",
        parameters=[TemplateQuerySerializer],
        responses=list_response(TemplateSerializer),
    )
    def get(self, request: ApiRequest) -> Response:
        """Templates you see: those of your projects and those for every project."""
        slug = request.validated_query(TemplateQuerySerializer).get("project")
        project = visible_project(request.caller, slug) if slug else None
        rows = visible_templates(request.caller, project)
        return Response({"results": TemplateSerializer(rows, many=True).data})

    @extend_schema(
        operation_id="template_save",
        request=TemplateCreateRequestSerializer,
        responses={201: TemplateSerializer},
        parameters=[IDEMPOTENCY_KEY, LOCATION],
        examples=[TEMPLATE_EXAMPLE],
    )
    @idempotent
    def post(self, request: ApiRequest) -> Response:
        """Save a template for a project or, without one, for every project."""
        body = request.validated_data(TemplateCreateRequestSerializer)
        slug = body.pop("project")
        project = visible_project(request.caller, slug) if slug else None
        row = template_save(actor=request.caller, project=project, limits=request_limits(), **body)
        headers = {"Location": reverse("api:template", args=[row.pk])}
        return Response(
            TemplateSerializer(row).data, status=status.HTTP_201_CREATED, headers=headers
        )


class TemplateDetail(ApiView):
    service_roles = {"PATCH": TEMPLATE_ROLE, "DELETE": TEMPLATE_ROLE}

    @extend_schema(operation_id="template_show", parameters=[ETAG], responses=TemplateSerializer)
    def get(self, request: ApiRequest, template: str) -> Response:
        """One template."""
        return _response(_template(request, template))

    @extend_schema(
        operation_id="template_change",
        request=TemplateChangeSerializer,
        responses=TemplateSerializer,
        parameters=[IF_MATCH, ETAG],
        examples=[TEMPLATE_CHANGE_EXAMPLE],
    )
    def patch(self, request: ApiRequest, template: str) -> Response:
        """Change a template."""
        row, version = _template(request, template), if_match_number(request)
        body = request.validated_data(TemplateChangeSerializer)
        with _stale_version_shown(request, template):
            changed = template_update(
                template=row, actor=request.caller, limits=request_limits(), version=version, **body
            )
        return _response(changed)

    @extend_schema(
        operation_id="template_delete", parameters=[IF_MATCH_OPTIONAL], responses={204: None}
    )
    def delete(self, request: ApiRequest, template: str) -> Response:
        """Delete a template."""
        row, version = _template(request, template), if_match_number(request, is_required=False)
        with _stale_version_shown(request, template):
            template_delete(template=row, actor=request.caller, version=version)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _template(request: ApiRequest, ref: str) -> Template:
    if not (ref.isascii() and ref.isdigit() and len(ref) <= 18):
        raise Refused(ErrorCode.NOT_FOUND, "There is no such template, or you may not see it")
    return visible_template(request.caller, int(ref))


def _stale_version_shown(request: ApiRequest, ref: str) -> AbstractContextManager[None]:
    def current() -> tuple[Any, int]:
        row = _template(request, ref)
        return TemplateSerializer(row).data, row.version

    return stale_version_shown(request.data, current)


def _response(row: Template) -> Response:
    return Response(TemplateSerializer(row).data, headers={"ETag": f'"{row.version}"'})
