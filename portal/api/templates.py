"""Ready requests over REST. A change names the version it was made from."""

from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.api.access import caller
from portal.api.job_answers import LOCATION, asked, limits
from portal.api.openapi import listing
from portal.api.problem import VersionStale
from portal.api.projects import project_visible
from portal.api.versions import ETAG, IF_MATCH, number_seen
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


class TemplateList(APIView):
    @extend_schema(operation_id="template_list", responses=listing(TemplateShape))
    def get(self, request: Request) -> Response:
        rows = templates_for(caller(request))
        return Response({"results": TemplateShape(rows, many=True).data})

    @extend_schema(
        operation_id="template_save",
        request=TemplateBody,
        responses={201: TemplateShape},
        parameters=[LOCATION],
    )
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
    )
    def patch(self, request: Request, template: str) -> Response:
        row, version = _template(request, template), number_seen(request)
        body = asked(TemplateChange, request.data)
        try:
            changed = template_change(
                template=row, by=caller(request), limits=limits(), version=version, **body
            )
        except Refused as refused:
            if refused.code != "version_stale":
                raise
            row = _template(request, template)
            shown, etag = TemplateShape(row).data, f'"{row.version}"'
            raise VersionStale(shown, etag, refused.sentence) from refused
        return _shown(changed)

    @extend_schema(operation_id="template_delete", responses={204: None})
    def delete(self, request: Request, template: str) -> Response:
        template_delete(template=_template(request, template), by=caller(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


def _template(request: Request, ref: str) -> Template:
    if not (ref.isascii() and ref.isdigit() and len(ref) <= 18):
        raise Refused("not_found", "There is no such template, or you may not see it", "", 404)
    return template_visible(caller(request), int(ref))


def _shown(row: Template) -> Response:
    return Response(TemplateShape(row).data, headers={"ETag": f'"{row.version}"'})
