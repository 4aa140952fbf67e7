"""Projects and their members over REST."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.models import Membership, Project, Role, Scope, User
from portal.accounts.rights import require_platform_admin, require_project_admin
from portal.accounts.selectors import projects_of
from portal.accounts.services import (
    APPROVALS,
    SWITCHES,
    membership_remove,
    membership_set,
    project_create,
)
from portal.api.protocol.authentication import caller
from portal.api.protocol.idempotency import KEY, once
from portal.api.protocol.openapi import listing
from portal.errors import Refused


class MemberShape(serializers.ModelSerializer[Membership]):
    user = serializers.CharField(source="user.username")

    class Meta:
        model = Membership
        fields = ("user", "role")


class ProjectShape(serializers.ModelSerializer[Project]):
    members = MemberShape(source="memberships", many=True)

    class Meta:
        model = Project
        fields = ("slug", "name", "archived", "created_at", "members", *APPROVALS, *SWITCHES)


class ProjectBody(serializers.Serializer[Any]):
    slug = serializers.CharField(max_length=40)
    name = serializers.CharField(max_length=100, required=False, default="")


class MemberBody(serializers.Serializer[Any]):
    role = serializers.ChoiceField(choices=[(str(r), str(r)) for r in Role])


class ProjectList(APIView):
    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="project_list", responses=listing(ProjectShape))
    def get(self, request: Request) -> Response:
        return Response({"results": ProjectShape(projects_of(caller(request)), many=True).data})

    @extend_schema(
        operation_id="project_create",
        parameters=[KEY],
        request=ProjectBody,
        responses={201: ProjectShape},
    )
    @once
    def post(self, request: Request) -> Response:
        require_platform_admin(caller(request))
        body = ProjectBody(data=request.data)
        body.is_valid(raise_exception=True)
        row = project_create(**body.validated_data, actor=caller(request).username)
        return Response(ProjectShape(row).data, status=status.HTTP_201_CREATED)


class ProjectOne(APIView):
    @extend_schema(operation_id="project_show", responses=ProjectShape)
    def get(self, request: Request, project: str) -> Response:
        return Response(ProjectShape(project_visible(caller(request), project)).data)


class ProjectMember(APIView):
    scopes = {"PUT": Scope.ADMIN, "DELETE": Scope.ADMIN}

    @extend_schema(operation_id="membership_set", request=MemberBody, responses=MemberShape)
    def put(self, request: Request, project: str, user: str) -> Response:
        row = project_visible(caller(request), project)
        require_project_admin(caller(request), row)
        body = MemberBody(data=request.data)
        body.is_valid(raise_exception=True)
        role = Role(body.validated_data["role"])
        person = user_named(user)
        member = membership_set(project=row, user=person, role=role, actor=caller(request).username)
        return Response(MemberShape(member).data)

    @extend_schema(operation_id="membership_remove", responses={204: None})
    def delete(self, request: Request, project: str, user: str) -> Response:
        row = project_visible(caller(request), project)
        require_project_admin(caller(request), row)
        membership_remove(project=row, user=user_named(user), actor=caller(request).username)
        return Response(status=status.HTTP_204_NO_CONTENT)


def project_visible(user: User, slug: str) -> Project:
    """The project, or Refused(not_found): foreign and unknown read the same."""
    row = projects_of(user).filter(slug=slug).first()
    if row is None:
        raise Refused("not_found", "There is no such project, or you may not see it", "", 404)
    return row


def user_named(name: str) -> User:
    """An active user. Only asked after the caller has proven to run the project."""
    row = User.objects.filter(username=name, is_active=True).first()
    if row is None:
        raise Refused("not_found", f"There is no user {name!r}", "user", 404)
    return row
