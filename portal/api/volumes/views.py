"""REST views of volumes. Platform admins change them; a change names the version that was read."""

from contextlib import AbstractContextManager
from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.response import Response

from portal.accounts.models import Project, TokenScope, User
from portal.accounts.selectors import visible_project
from portal.api.protocol.idempotency import IDEMPOTENCY_KEY, idempotent
from portal.api.protocol.openapi import LOCATION, list_response
from portal.api.protocol.permissions import IsPlatformAdmin
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.versions import (
    ETAG,
    IF_MATCH,
    IF_MATCH_OPTIONAL,
    if_match_number,
    stale_version_shown,
)
from portal.api.protocol.views import ApiView
from portal.api.volumes.serializers import (
    VOLUME_EXAMPLE,
    VolumeRequestSerializer,
    VolumeSerializer,
    VolumeValuesSerializer,
)
from portal.volumes.models import Volume
from portal.volumes.selectors import node_roots, visible_volume, visible_volumes, volume_state
from portal.volumes.services import VolumeValues, volume_create, volume_delete, volume_update


class VolumeList(ApiView):
    scopes = {"POST": TokenScope.ADMIN}
    permissions = {"POST": (IsPlatformAdmin,)}

    @extend_schema(operation_id="volume_list", responses=list_response(VolumeSerializer))
    def get(self, request: ApiRequest) -> Response:
        """Volumes of your projects, with the nodes that have them; all, for platform admins."""
        roots = node_roots()
        states = [volume_state(row, roots) for row in visible_volumes(request.caller)]
        return Response({"results": VolumeSerializer(states, many=True).data})

    @extend_schema(
        operation_id="volume_create",
        request=VolumeRequestSerializer,
        responses={201: VolumeSerializer},
        parameters=[IDEMPOTENCY_KEY, LOCATION],
        examples=[VOLUME_EXAMPLE],
    )
    @idempotent
    def post(self, request: ApiRequest) -> Response:
        """Name a folder below a root of nodes, for some projects. Nothing is made on any node."""
        body = request.validated_data(VolumeRequestSerializer)
        place = {name: body.pop(name) for name in ("name", "root", "subpath")}
        projects = _projects(request.caller, body.pop("projects"))
        values = VolumeValues(projects=projects, **body)
        row = volume_create(actor=request.caller, **place, values=values)
        headers = {"Location": reverse("api:volume", args=[row.name])}
        return Response(_data(row), status=status.HTTP_201_CREATED, headers=headers)


class VolumeDetail(ApiView):
    scopes = {"PATCH": TokenScope.ADMIN, "DELETE": TokenScope.ADMIN}
    permissions = {"PATCH": (IsPlatformAdmin,), "DELETE": (IsPlatformAdmin,)}

    @extend_schema(operation_id="volume_show", parameters=[ETAG], responses=VolumeSerializer)
    def get(self, request: ApiRequest, volume: str) -> Response:
        """One volume."""
        return _response(visible_volume(request.caller, volume))

    @extend_schema(
        operation_id="volume_change",
        request=VolumeValuesSerializer,
        responses=VolumeSerializer,
        parameters=[IF_MATCH, ETAG],
    )
    def patch(self, request: ApiRequest, volume: str) -> Response:
        """Change who may use a volume, how, and what is said of it. Its name and place stay."""
        row, version = visible_volume(request.caller, volume), if_match_number(request)
        body = request.validated_data(VolumeValuesSerializer)
        kept = ("description", "read_only", "quota_mib", "quota_files")
        slugs = body.pop("projects", None)
        projects = tuple(row.projects.all()) if slugs is None else _projects(request.caller, slugs)
        chosen = {name: getattr(row, name) for name in kept} | body
        values = VolumeValues(projects=projects, **chosen)
        with _stale_version_shown(request, volume):
            changed = volume_update(
                volume=row, actor=request.caller, values=values, version=version
            )
        return _response(visible_volume(request.caller, changed.name))

    @extend_schema(
        operation_id="volume_delete", parameters=[IF_MATCH_OPTIONAL], responses={204: None}
    )
    def delete(self, request: ApiRequest, volume: str) -> Response:
        """Forget a volume that no job uses. Its files stay where they are."""
        row, version = (
            visible_volume(request.caller, volume),
            if_match_number(request, is_required=False),
        )
        with _stale_version_shown(request, volume):
            volume_delete(volume=row, actor=request.caller, version=version)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _projects(user: User, slugs: list[str]) -> tuple[Project, ...]:
    return tuple(visible_project(user, slug) for slug in dict.fromkeys(slugs))


def _stale_version_shown(request: ApiRequest, name: str) -> AbstractContextManager[None]:
    def current() -> tuple[Any, int]:
        row = visible_volume(request.caller, name)
        return _data(row), row.version

    return stale_version_shown(request.data, current)


def _data(row: Volume) -> dict[str, Any]:
    return dict(VolumeSerializer(volume_state(row, node_roots())).data)


def _response(row: Volume) -> Response:
    return Response(_data(row), headers={"ETag": f'"{row.version}"'})
