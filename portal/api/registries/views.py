"""REST views of registries: their addresses are listed, their passwords are write-only."""

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.response import Response

from portal.accounts.selectors import visible_project
from portal.api.protocol.openapi import list_response
from portal.api.protocol.permissions import SeesProject
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView, ProjectCredentialView
from portal.api.registries.serializers import RegistryRequestSerializer, RegistrySerializer
from portal.registries.selectors import visible_registries
from portal.registries.services import registry_delete, registry_set


class RegistryList(ApiView):
    permissions = {"GET": (SeesProject,)}
    service_roles = {"GET": "member of the project"}

    @extend_schema(operation_id="registry_list", responses=list_response(RegistrySerializer))
    def get(self, request: ApiRequest, project: str) -> Response:
        """The registries that the project's jobs pull images from with a credential."""
        rows = visible_registries(request.caller, visible_project(request.caller, project))
        return Response({"results": RegistrySerializer(rows, many=True).data})


class RegistryDetail(ProjectCredentialView):
    @extend_schema(
        operation_id="registry_set", request=RegistryRequestSerializer, responses=RegistrySerializer
    )
    def put(self, request: ApiRequest, project: str, registry: str) -> Response:
        """Set the credential for a registry: a new one, or another user name and password. Nodes
        use it to pull the images of the project's jobs, and for nothing else."""
        row = visible_project(request.caller, project)
        body = request.validated_data(RegistryRequestSerializer)
        found = registry_set(actor=request.caller, project=row, address=registry, **body)
        return Response(RegistrySerializer(found).data)

    @extend_schema(operation_id="registry_delete", responses={204: None})
    def delete(self, request: ApiRequest, project: str, registry: str) -> Response:
        """Delete the credential for a registry. Images that nodes have already stay there."""
        row = visible_project(request.caller, project)
        registry_delete(actor=request.caller, project=row, address=registry)
        return Response(status=status.HTTP_204_NO_CONTENT)
