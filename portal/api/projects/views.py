"""REST views of projects and their members."""

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.response import Response

from agents.contract.egress import EgressPolicy
from portal.accounts.models import Role, TokenScope
from portal.accounts.selectors import active_user, projects_of, visible_project
from portal.accounts.services import membership_remove, membership_set, project_egress_set
from portal.api.projects.serializers import (
    EgressRequestSerializer,
    MemberRequestSerializer,
    MemberSerializer,
    ProjectRequestSerializer,
    ProjectSerializer,
)
from portal.api.protocol.idempotency import IDEMPOTENCY_KEY, idempotent
from portal.api.protocol.openapi import list_response
from portal.api.protocol.permissions import IsPlatformAdmin, IsProjectAdmin
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.quotas.projects import project_create


class ProjectList(ApiView):
    scopes = {"POST": TokenScope.ADMIN}
    permissions = {"POST": (IsPlatformAdmin,)}

    @extend_schema(operation_id="project_list", responses=list_response(ProjectSerializer))
    def get(self, request: ApiRequest) -> Response:
        """The projects you are in; all of them for a platform admin."""
        return Response({"results": ProjectSerializer(projects_of(request.caller), many=True).data})

    @extend_schema(
        operation_id="project_create",
        parameters=[IDEMPOTENCY_KEY],
        request=ProjectRequestSerializer,
        responses={201: ProjectSerializer},
    )
    @idempotent
    def post(self, request: ApiRequest) -> Response:
        """Create a project."""
        body = request.validated_data(ProjectRequestSerializer)
        row = project_create(**body, actor=request.caller.username)
        return Response(ProjectSerializer(row).data, status=status.HTTP_201_CREATED)


class ProjectDetail(ApiView):
    @extend_schema(operation_id="project_show", responses=ProjectSerializer)
    def get(self, request: ApiRequest, project: str) -> Response:
        """One project with its members."""
        return Response(ProjectSerializer(visible_project(request.caller, project)).data)


class ProjectEgress(ApiView):
    scopes = {"PUT": TokenScope.ADMIN}
    permissions = {"PUT": (IsPlatformAdmin,)}

    @extend_schema(
        operation_id="project_egress_set",
        request=EgressRequestSerializer,
        responses=ProjectSerializer,
    )
    def put(self, request: ApiRequest, project: str) -> Response:
        """Set what the project's jobs reach beyond their gang: attempts that are placed from now
        on. Those that run keep what they reach."""
        row = visible_project(request.caller, project)
        body = request.validated_data(EgressRequestSerializer)
        egress = EgressPolicy(body["egress"])
        project_egress_set(project=row, egress=egress, actor=request.caller.username)
        return Response(ProjectSerializer(visible_project(request.caller, project)).data)


class ProjectMember(ApiView):
    scopes = {"PUT": TokenScope.ADMIN, "DELETE": TokenScope.ADMIN}
    permissions = {"PUT": (IsProjectAdmin,), "DELETE": (IsProjectAdmin,)}

    @extend_schema(
        operation_id="membership_set", request=MemberRequestSerializer, responses=MemberSerializer
    )
    def put(self, request: ApiRequest, project: str, user: str) -> Response:
        """Add a member, or change their role."""
        row = visible_project(request.caller, project)
        body = request.validated_data(MemberRequestSerializer)
        member = membership_set(
            project=row,
            user=active_user(user),
            role=Role(body["role"]),
            actor=request.caller.username,
        )
        return Response(MemberSerializer(member).data)

    @extend_schema(operation_id="membership_remove", responses={204: None})
    def delete(self, request: ApiRequest, project: str, user: str) -> Response:
        """Remove a member."""
        row = visible_project(request.caller, project)
        membership_remove(project=row, user=active_user(user), actor=request.caller.username)
        return Response(status=status.HTTP_204_NO_CONTENT)
