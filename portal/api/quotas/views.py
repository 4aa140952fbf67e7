"""REST views of quotas. A change names the version it was made from (If-Match)."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.response import Response

from portal.accounts.models import Project, TokenScope, User
from portal.accounts.selectors import active_user, visible_project
from portal.api.protocol.openapi import list_response
from portal.api.protocol.permissions import IsPlatformAdmin, IsProjectAdmin, SeesProject
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.versions import ETAG, IF_MATCH, if_match_number, stale_version_shown
from portal.api.protocol.views import ApiView
from portal.api.quotas.serializers import (
    QuotaQuerySerializer,
    QuotaRequestSerializer,
    QuotaSerializer,
)
from portal.availability.promises import current_promises
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.quotas.models import Quota
from portal.quotas.selectors import visible_quotas
from portal.quotas.services import quota_set

IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="`*` to create a new quota",
)


class QuotaList(ApiView):
    @extend_schema(operation_id="quota_list", responses=list_response(QuotaSerializer))
    def get(self, request: ApiRequest) -> Response:
        """The quotas of your projects; all of them for a platform admin."""
        return Response({"results": _data(list(visible_quotas(request.caller)))})


class ProjectQuota(ApiView):
    scopes = {"PUT": TokenScope.ADMIN}
    permissions = {"PUT": (SeesProject, IsPlatformAdmin)}

    @extend_schema(
        operation_id="quota_show",
        parameters=[QuotaQuerySerializer, ETAG],
        responses=QuotaSerializer,
    )
    def get(self, request: ApiRequest, project: str) -> Response:
        """The quota of a whole project."""
        return _response(_quota(request, project, None))

    @extend_schema(
        operation_id="quota_set",
        request=QuotaRequestSerializer,
        responses=QuotaSerializer,
        parameters=[IF_MATCH, IF_NONE_MATCH, ETAG],
    )
    def put(self, request: ApiRequest, project: str) -> Response:
        """Create or change the quota of a project."""
        row = visible_project(request.caller, project)
        return _set(request, project=row)


class UserQuota(ApiView):
    scopes = {"PUT": TokenScope.ADMIN}
    permissions = {"PUT": (IsProjectAdmin,)}

    @extend_schema(
        operation_id="user_quota_show",
        parameters=[QuotaQuerySerializer, ETAG],
        responses=QuotaSerializer,
    )
    def get(self, request: ApiRequest, project: str, user: str) -> Response:
        """The quota of one member in a project."""
        return _response(_quota(request, project, user))

    @extend_schema(
        operation_id="user_quota_set",
        request=QuotaRequestSerializer,
        responses=QuotaSerializer,
        parameters=[IF_MATCH, IF_NONE_MATCH, ETAG],
    )
    def put(self, request: ApiRequest, project: str, user: str) -> Response:
        """Create or change the quota of one member in a project."""
        row = visible_project(request.caller, project)
        return _set(request, project=row, user=active_user(user))


def _quota(request: ApiRequest, project: str, user: str | None) -> Quota:
    query = request.validated_query(QuotaQuerySerializer)
    rows = visible_quotas(request.caller).filter(**query)
    row = rows.filter(project__slug=project, user__username=user).first()
    if row is None:
        raise Refused(ErrorCode.NOT_FOUND, "There is no such quota, or you may not see it")
    return row


def _set(request: ApiRequest, *, project: Project, user: User | None = None) -> Response:
    limits, actor = _requested_limits(request), request.caller.username

    def current() -> tuple[Any, int]:
        row = Quota.objects.filter(project=project, user=user, model=limits["model"]).first()
        return (_data([row])[0], row.version) if row else (None, 0)

    with stale_version_shown(request.data, current):
        return _response(quota_set(project=project, user=user, actor=actor, **limits))


def _requested_limits(request: ApiRequest) -> dict[str, Any]:
    """The new limits, and the version they were made from."""
    version = _version(request)
    return request.validated_data(QuotaRequestSerializer) | {"version": version}


def _version(request: ApiRequest) -> int:
    if request.headers.get("If-None-Match", "").strip() == "*":
        return 0
    return if_match_number(request)


def _response(quota: Quota) -> Response:
    return Response(_data([quota])[0], headers={"ETag": f'"{quota.version}"'})


def _data(quotas: list[Quota]) -> list[dict[str, Any]]:
    promises = current_promises({quota.project.slug for quota in quotas}) if quotas else []
    rows = QuotaSerializer(quotas, many=True, context={"promises": promises}).data
    return [dict(row) for row in rows]
