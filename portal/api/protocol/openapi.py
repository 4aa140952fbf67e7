"""The OpenAPI schema beyond the views: problem responses, who may call, and shared parameters."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import get_doc
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, inline_serializer
from rest_framework import serializers

from agents.contract.documents import GpuMode
from portal.api.protocol.permissions import required_scope
from portal.api.protocol.views import ApiView
from portal.choices import choices_from_enum
from portal.jobs.filters import KINDS
from portal.webhooks.values import DeliveryStatus
from portal.what_if.models import WhatIfStatus
from scheduler.core.model.states import (
    AllocationStatus,
    JobStatus,
    NodeStatus,
    ReplicaStatus,
    SliceStatus,
)

# One component for each set of choices, whichever field uses it. ENUM_NAME_OVERRIDES names these.
JOB_STATUS = choices_from_enum(JobStatus)
REPLICA_STATUS = choices_from_enum(ReplicaStatus)
ALLOCATION_STATUS = choices_from_enum(AllocationStatus)
SLICE_STATUS = choices_from_enum(SliceStatus)
NODE_STATUS = choices_from_enum(NodeStatus)
GPU_MODE = choices_from_enum(GpuMode)
WHAT_IF_STATUS = WhatIfStatus.choices
DELIVERY_STATUS = choices_from_enum(DeliveryStatus)
JOB_KIND = [(kind, kind) for kind in KINDS]

PROBLEM = {"$ref": "#/components/schemas/Problem"}
FIELD = {
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("field", "code", "message")},
        "combination": {
            "type": "string",
            "description": "of `invalid_combination`: which one; often absent",
        },
        "suggestion": {
            "type": "object",
            "additionalProperties": True,
            "description": "fields of the request with corrected values; often absent",
        },
    },
    "required": ["field", "code", "message"],
}
PROBLEM_SCHEMA = {
    "type": "object",
    "description": "RFC 9457 problem details, with a stable `code` and the invalid fields.",
    "properties": {
        **{name: {"type": "string"} for name in ("type", "title", "detail", "instance", "code")},
        "status": {"type": "integer"},
        "errors": {"type": "array", "items": FIELD},
        "request_id": {"type": "string", "description": "identifies the log lines of this call"},
        "current": {"description": "412 only: the resource as it is now"},
        "sent": {"description": "412 only: the change that was sent"},
    },
    "required": [
        *("type", "title", "status", "detail", "instance", "code", "errors", "request_id"),
    ],
}
METHODS = {"get", "post", "put", "patch", "delete"}


class BearerScheme(OpenApiAuthenticationExtension):
    """The token in the Authorization header."""

    target_class = "portal.api.protocol.authentication.BearerToken"
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}


EVERY_OPERATION = {
    "401": "Authentication required",
    "403": "Not allowed",
    "429": "Too many requests: see Retry-After",
}
WITH_PATH_PARAMETER = {"404": "Not found, or not visible to you"}
WITH_QUERY = {"400": "Invalid query parameter", "404": "Invalid cursor"}
WITH_BODY = {
    "400": "Invalid request body: see `errors`",
    "413": "Request body too large",
    "415": "Unsupported media type: send JSON",
}
WITH_CHANGE = {
    "400": "Invalid request: see `errors`",
    "404": "Not found, or not visible to you",
    "409": "The current state does not allow this",
    "422": "The idempotency key was used for another request",
}
WITH_IF_MATCH = {"412": "Changed since you read it", "428": "If-Match required"}
WITH_LAST_EVENT_ID = {"410": "The events after this one have expired: start again"}
WITH_RANGE = {"416": "The range begins behind the end of the file"}
OF_A_TREE = {"410": "Its files were removed by retention"}
NOT_MODIFIED = {"description": "Not modified"}
IF_NONE_MATCH = {
    "in": "header",
    "name": "If-None-Match",
    "schema": {"type": "string"},
    "description": "The ETag of the last response: 304 if nothing has changed since",
}
LOCATION = OpenApiParameter(
    "Location",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    response=[201],
    description="The address of the new resource",
)


class ApiSchema(AutoSchema):
    """Adds who may call: the token's scope and the role, where everyone may not."""

    def get_description(self) -> str:  # type: ignore[override]  # as drf-spectacular declares it
        """The handler's docstring and the requirements; a view's own docstring is not shown."""
        text = get_doc(getattr(self.view, self.method.lower(), None))
        requirements = [f"token scope `{self._scope()}`"]
        if role := self._role():
            requirements.append(role)
        return f"{text}\n\nRequires: {', '.join(requirements)}.".strip()

    def get_extensions(self) -> dict[str, Any]:
        extensions = {"x-required-scope": self._scope()}
        if role := self._role():
            extensions["x-required-role"] = role
        return extensions

    def _scope(self) -> str:
        return str(required_scope(self.view, self.method))

    def _role(self) -> str:
        if not isinstance(self.view, ApiView):
            return ""
        roles = [permission.role for permission in self.view.role_permissions(self.method)]
        roles.append(self.view.service_roles.get(self.method, ""))
        return ", ".join(role for role in roles if role)


def add_problem_responses(
    result: dict[str, Any], generator: SchemaGenerator, request: Any, public: bool
) -> dict[str, Any]:
    """Postprocessing hook: each operation's problem responses, and 304 for conditional GETs."""
    result.setdefault("components", {}).setdefault("schemas", {})["Problem"] = PROBLEM_SCHEMA
    for path, operations in result["paths"].items():
        for method in METHODS & set(operations):
            operation = operations[method]
            for status, text in _problems(path, method, operation).items():
                operation["responses"][status] = {
                    "description": text,
                    "content": {"application/problem+json": {"schema": PROBLEM}},
                }
            if method == "get" and _is_conditional(operation):
                operation["responses"]["304"] = NOT_MODIFIED
                operation.setdefault("parameters", []).append(IF_NONE_MATCH)
    return result


def _problems(path: str, method: str, operation: dict[str, Any]) -> dict[str, str]:
    responses = dict(EVERY_OPERATION)
    parameters = operation.get("parameters", [])
    if any(parameter["in"] in ("query", "header") for parameter in parameters):
        responses |= WITH_QUERY
    if "{" in path:
        responses |= WITH_PATH_PARAMETER
    if method != "get":
        responses |= WITH_CHANGE
    if "requestBody" in operation:
        responses |= WITH_BODY
    if any(parameter["name"] == "If-Match" for parameter in parameters):
        responses |= WITH_IF_MATCH
    if any(parameter["name"] == "Last-Event-ID" for parameter in parameters):
        responses |= WITH_LAST_EVENT_ID
    if any(parameter["name"] == "Range" for parameter in parameters):
        responses |= WITH_RANGE
    if "/trees/{tree}/" in path:
        responses |= OF_A_TREE
    return responses


def _is_conditional(operation: dict[str, Any]) -> bool:
    response = operation["responses"].get("200", {})
    is_json = "application/json" in response.get("content", {})
    return is_json and "ETag" not in response.get("headers", {})


def list_response(row: type[serializers.Serializer[Any]], **extra_fields: Any) -> Any:
    """The schema of an unpaged list, `{"results": [row, …]}`."""
    name = f"{row.__name__.removesuffix('Serializer')}List"
    return inline_serializer(name=name, fields={"results": row(many=True), **extra_fields})
