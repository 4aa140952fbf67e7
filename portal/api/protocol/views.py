"""The base of every REST view: typed requests, and permissions by method."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.http import HttpRequest
from rest_framework.views import APIView

from portal.accounts.models import TokenScope
from portal.api.protocol.permissions import IsProjectAdmin, RolePermission, SeesProject
from portal.api.protocol.requests import ApiRequest


class ApiView(APIView):
    """Scopes, permissions and roles are by HTTP method; the schema shows them."""

    # The token scope of methods that need another than read (GET) or write.
    scopes: ClassVar[Mapping[str, TokenScope]] = {}
    # Checked in order after authentication and the token's scope.
    permissions: ClassVar[Mapping[str, tuple[type[RolePermission], ...]]] = {}

    # For the schema: who may call, where a service checks it because it depends on the row or body.
    service_roles: ClassVar[Mapping[str, str]] = {}

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> ApiRequest:
        """As DRF makes it, with our own request class."""
        return ApiRequest(
            request,
            parsers=self.get_parsers(),
            authenticators=self.get_authenticators(),
            negotiator=self.get_content_negotiator(),
            parser_context=self.get_parser_context(request),
        )

    def get_permissions(self) -> list[Any]:
        return [*super().get_permissions(), *self.role_permissions(self.request.method or "")]

    def role_permissions(self, method: str) -> list[RolePermission]:
        """The role permissions of a method. HEAD runs the handler of GET."""
        method = "GET" if method == "HEAD" else method
        return [permission() for permission in self.permissions.get(method, ())]


class ProjectCredentialView(ApiView):
    """What admins of a project set and delete, and no response has."""

    scopes = {"PUT": TokenScope.ADMIN, "DELETE": TokenScope.ADMIN}
    permissions = {
        "PUT": (SeesProject, IsProjectAdmin),
        "DELETE": (SeesProject, IsProjectAdmin),
    }
