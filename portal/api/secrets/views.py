"""REST views of secrets: their names are listed, their values are write-only."""

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.response import Response

from portal.accounts.selectors import visible_project
from portal.api.protocol.openapi import list_response
from portal.api.protocol.permissions import SeesProject
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView, ProjectCredentialView
from portal.api.secrets.serializers import SecretRequestSerializer, SecretSerializer
from portal.job_secrets.selectors import secrets_of, visible_secrets
from portal.job_secrets.services import secret_delete, secret_set

SECRETS = list_response(SecretSerializer)


class SecretList(ApiView):
    @extend_schema(operation_id="secret_list", responses=SECRETS)
    def get(self, request: ApiRequest) -> Response:
        """The names of your secrets. Your own jobs may use them, in every project."""
        return Response({"results": SecretSerializer(secrets_of(request.caller), many=True).data})


class SecretDetail(ApiView):
    @extend_schema(
        operation_id="secret_set", request=SecretRequestSerializer, responses=SecretSerializer
    )
    def put(self, request: ApiRequest, secret: str) -> Response:
        """Set one of your secrets: a new one, or a new value. Jobs that run keep the old value."""
        body = request.validated_data(SecretRequestSerializer)
        row = secret_set(actor=request.caller, name=secret, value=body["value"])
        return Response(SecretSerializer(row).data)

    @extend_schema(operation_id="secret_delete", responses={204: None})
    def delete(self, request: ApiRequest, secret: str) -> Response:
        """Delete one of your secrets. Jobs that wait for their start wait until it is set again."""
        secret_delete(actor=request.caller, name=secret)
        return Response(status=status.HTTP_204_NO_CONTENT)


class ProjectSecretList(ApiView):
    permissions = {"GET": (SeesProject,)}
    service_roles = {"GET": "member of the project"}

    @extend_schema(operation_id="project_secret_list", responses=SECRETS)
    def get(self, request: ApiRequest, project: str) -> Response:
        """The names of the secrets that jobs of the project's members may use."""
        rows = visible_secrets(request.caller, visible_project(request.caller, project))
        return Response({"results": SecretSerializer(rows, many=True).data})


class ProjectSecretDetail(ProjectCredentialView):
    @extend_schema(
        operation_id="project_secret_set",
        request=SecretRequestSerializer,
        responses=SecretSerializer,
    )
    def put(self, request: ApiRequest, project: str, secret: str) -> Response:
        """Set a secret of the project: a new one, or a new value. Each member's job may read it."""
        row = visible_project(request.caller, project)
        body = request.validated_data(SecretRequestSerializer)
        found = secret_set(actor=request.caller, project=row, name=secret, value=body["value"])
        return Response(SecretSerializer(found).data)

    @extend_schema(operation_id="project_secret_delete", responses={204: None})
    def delete(self, request: ApiRequest, project: str, secret: str) -> Response:
        """Delete a secret of the project. Jobs that wait for their start wait until it is set
        again."""
        row = visible_project(request.caller, project)
        secret_delete(actor=request.caller, project=row, name=secret)
        return Response(status=status.HTTP_204_NO_CONTENT)
