"""Ready requests over REST. A change names the version it was made from."""

from contextlib import AbstractContextManager
from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.api.accounts.projects import project_visible
from portal.api.jobs.examples import TEMPLATE_CHANGE_EXAMPLE, TEMPLATE_EXAMPLE
from portal.api.jobs.responses import LOCATION, asked, limits
from portal.api.protocol.authentication import caller
from portal.api.protocol.idempotency import KEY, once
from portal.api.protocol.openapi import listing
from portal.api.protocol.versions import (
    ETAG,
    IF_MATCH,
    IF_MATCH_OPTIONAL,
    both_versions,
    number_seen,
)
from portal.catalogue.models import Template
from portal.catalogue.selectors import template_visible, templates_for
from portal.catalogue.services import template_change, template_delete, template_save
from portal.errors import Refused


class TemplateShape(serializers.ModelSerializer[Template]):
    project = serializers.CharField(
        source="project.slug", default=None, allow_null=True, help_text="null: for every project"
    )
    request = serializers.DictField(help_text="a request without what a job has of its own")

    class Meta:
        model = Template
        fields = (
            "id",
            "project",
            "name",
            "description",
            "request",
            "made_by",
            "version",
            "changed_at",
        )


class TemplateBody(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=63)
    description = serializers.CharField(
        max_length=200, required=False, default="", allow_blank=True
    )
    project = serializers.CharField(
        max_length=40,
        required=False,
        default="",
        allow_blank=True,
        help_text="empty: for every project, which only platform admins may",
    )
    request = serializers.DictField(help_text="as a job is submitted with")


class TemplateChange(serializers.Serializer[Any]):
    """What is left out stays."""

    name = serializers.CharField(max_length=63, required=False)
    description = serializers.CharField(max_length=200, required=False, allow_blank=True)
    request = serializers.DictField(required=False)


class TemplateQuery(serializers.Serializer[Any]):
    project = serializers.CharField(
        max_length=40,
        required=False,
        help_text="its templates and those of every project; without it, all that you see",
    )


class TemplateList(APIView):
    @extend_schema(
        operation_id="template_list",
        parameters=[TemplateQuery],
        responses=listing(TemplateShape),
    )
    def get(self, request: Request) -> Response:
        slug = asked(TemplateQuery, request.query_params).get("project")
        project = project_visible(caller(request), slug) if slug else None
        rows = templates_for(caller(request), project)
        return Response({"results": TemplateShape(rows, many=True).data})

    @extend_schema(
        operation_id="template_save",
        request=TemplateBody,
        responses={201: TemplateShape},
        parameters=[KEY, LOCATION],
        examples=[TEMPLATE_EXAMPLE],
    )
    @once
    def post(self, request: Request) -> Response:
        body = asked(TemplateBody, request.data)
        slug = body.pop("project")
        project = project_visible(caller(request), slug) if slug else None
        row = template_save(by=caller(request), project=project, limits=limits(), **body)
        place = {"Location": reverse("api:template", args=[row.pk])}
        return Response(TemplateShape(row).data, status=status.HTTP_201_CREATED, headers=place)


class TemplateOne(APIView):
    @extend_schema(operation_id="template_show", parameters=[ETAG], responses=TemplateShape)
    def get(self, request: Request, template: str) -> Response:
        return _shown(_template(request, template))

    @extend_schema(
        operation_id="template_change",
        request=TemplateChange,
        responses=TemplateShape,
        parameters=[IF_MATCH, ETAG],
        examples=[TEMPLATE_CHANGE_EXAMPLE],
    )
    def patch(self, request: Request, template: str) -> Response:
        row, version = _template(request, template), number_seen(request)
        body = asked(TemplateChange, request.data)
        with _both_versions(request, template):
            changed = template_change(
                template=row, by=caller(request), limits=limits(), version=version, **body
            )
        return _shown(changed)

    @extend_schema(
        operation_id="template_delete", parameters=[IF_MATCH_OPTIONAL], responses={204: None}
    )
    def delete(self, request: Request, template: str) -> Response:
        row, version = _template(request, template), number_seen(request, is_needed=False)
        with _both_versions(request, template):
            template_delete(template=row, by=caller(request), version=version)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _template(request: Request, ref: str) -> Template:
    if not (ref.isascii() and ref.isdigit() and len(ref) <= 18):
        raise Refused("not_found", "There is no such template, or you may not see it", "", 404)
    return template_visible(caller(request), int(ref))


def _both_versions(request: Request, ref: str) -> AbstractContextManager[None]:
    def now() -> tuple[Any, int]:
        row = _template(request, ref)
        return TemplateShape(row).data, row.version

    return both_versions(request.data, now)


def _shown(row: Template) -> Response:
    return Response(TemplateShape(row).data, headers={"ETag": f'"{row.version}"'})
