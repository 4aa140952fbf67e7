"""Quotas over REST. A change names the version it was made from (If-Match), or gets 412 or 428."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.models import Project, Scope, User
from portal.accounts.rights import require_platform_admin, require_project_admin
from portal.api.accounts.projects import project_visible, user_named
from portal.api.protocol.authentication import caller
from portal.api.protocol.openapi import listing
from portal.api.protocol.versions import ETAG, IF_MATCH, both_versions, number_seen
from portal.errors import Refused
from portal.quotas.models import Quota
from portal.quotas.selectors import quotas_of
from portal.quotas.services import MAX_LIMIT_UNITS, quota_set

IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, description="* for a new quota"
)


class QuotaShape(serializers.ModelSerializer[Quota]):
    project = serializers.CharField(source="project.slug")
    user = serializers.CharField(source="user.username", default=None, allow_null=True)

    class Meta:
        model = Quota
        fields = (
            "project",
            "user",
            "model",
            "limit_units",
            "borrow_units",
            "lend_units",
            "used_units",
            "version",
        )


class QuotaBody(serializers.Serializer[Any]):
    limit_units = serializers.IntegerField(min_value=0, max_value=MAX_LIMIT_UNITS)
    model = serializers.CharField(
        max_length=128, default="", allow_blank=True, help_text="such as H200; empty: of any model"
    )
    borrow_units = serializers.IntegerField(
        min_value=0, max_value=MAX_LIMIT_UNITS, required=False, help_text="of projects only"
    )
    lend_units = serializers.IntegerField(
        min_value=0, max_value=MAX_LIMIT_UNITS, required=False, help_text="of projects only"
    )


class QuotaQuery(serializers.Serializer[Any]):
    model = serializers.CharField(max_length=128, default="", allow_blank=True)


class QuotaList(APIView):
    @extend_schema(operation_id="quota_list", responses=listing(QuotaShape))
    def get(self, request: Request) -> Response:
        return Response({"results": QuotaShape(quotas_of(caller(request)), many=True).data})


class ProjectQuota(APIView):
    scopes = {"PUT": Scope.ADMIN}

    @extend_schema(operation_id="quota_show", parameters=[QuotaQuery, ETAG], responses=QuotaShape)
    def get(self, request: Request, project: str) -> Response:
        return _shown(_quota(request, project, None))

    @extend_schema(
        operation_id="quota_set",
        request=QuotaBody,
        responses=QuotaShape,
        parameters=[IF_MATCH, IF_NONE_MATCH, ETAG],
    )
    def put(self, request: Request, project: str) -> Response:
        row = project_visible(caller(request), project)
        require_platform_admin(caller(request))
        return _set(request, project=row)


class UserQuota(APIView):
    scopes = {"PUT": Scope.ADMIN}

    @extend_schema(
        operation_id="user_quota_show", parameters=[QuotaQuery, ETAG], responses=QuotaShape
    )
    def get(self, request: Request, project: str, user: str) -> Response:
        return _shown(_quota(request, project, user))

    @extend_schema(
        operation_id="user_quota_set",
        request=QuotaBody,
        responses=QuotaShape,
        parameters=[IF_MATCH, IF_NONE_MATCH, ETAG],
    )
    def put(self, request: Request, project: str, user: str) -> Response:
        row = project_visible(caller(request), project)
        require_project_admin(caller(request), row)
        return _set(request, project=row, user=user_named(user))


def _quota(request: Request, project: str, user: str | None) -> Quota:
    query = QuotaQuery(data=request.query_params)
    query.is_valid(raise_exception=True)
    rows = quotas_of(caller(request)).filter(**query.validated_data)
    row = rows.filter(project__slug=project, user__username=user).first()
    if row is None:
        raise Refused("not_found", "There is no such quota, or you may not see it", "", 404)
    return row


def _set(request: Request, *, project: Project, user: User | None = None) -> Response:
    wanted, actor = _wanted(request), caller(request).username

    def now() -> tuple[Any, int]:
        row = Quota.objects.filter(project=project, user=user, model=wanted["model"]).first()
        return (QuotaShape(row).data, row.version) if row else (None, 0)

    with both_versions(request.data, now):
        return _shown(quota_set(project=project, user=user, actor=actor, **wanted))


def _wanted(request: Request) -> dict[str, Any]:
    """The new limits, and the version that the caller has seen."""
    version = _version(request)
    body = QuotaBody(data=request.data)
    body.is_valid(raise_exception=True)
    return body.validated_data | {"version": version}


def _version(request: Request) -> int:
    if request.headers.get("If-None-Match", "").strip() == "*":
        return 0
    return number_seen(request)


def _shown(quota: Quota) -> Response:
    return Response(QuotaShape(quota).data, headers={"ETag": f'"{quota.version}"'})
