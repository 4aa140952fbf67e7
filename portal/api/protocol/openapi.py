"""What the schema says beyond the views: every operation may answer with a problem."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import inline_serializer
from rest_framework import serializers

from agents.contract.documents import GpuMode
from portal.inventory.models import words
from portal.jobs.filters import KINDS
from portal.webhooks.values import DeliveryStatus
from portal.what_if.models import Status
from scheduler.core.model.states import (
    AllocationStatus,
    JobStatus,
    NodeStatus,
    ReplicaStatus,
    SliceStatus,
)

# One name for each set of words, whichever field uses it. Settings name these by path.
JOB_STATUS = words(JobStatus)
REPLICA_STATUS = words(ReplicaStatus)
ALLOCATION_STATUS = words(AllocationStatus)
SLICE_STATUS = words(SliceStatus)
NODE_STATUS = words(NodeStatus)
GPU_MODE = words(GpuMode)
WHAT_IF_STATUS = Status.choices
DELIVERY_STATUS = words(DeliveryStatus)
JOB_KIND = [(kind, kind) for kind in KINDS]

PROBLEM = {"$ref": "#/components/schemas/Problem"}
FIELD = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("field", "code", "message")},
    "required": ["field", "code", "message"],
}
PROBLEM_SCHEMA = {
    "type": "object",
    "description": "RFC 9457, with a stable `code` and the fields that are wrong.",
    "properties": {
        **{name: {"type": "string"} for name in ("type", "title", "detail", "instance", "code")},
        "status": {"type": "integer"},
        "errors": {"type": "array", "items": FIELD},
        "request_id": {"type": "string", "description": "which lines of the log tell of it"},
        "current": {"description": "of a 412: the row as it is now"},
        "sent": {"description": "of a 412: the change that was sent for it"},
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


ALWAYS = {"401": "Sign in first", "403": "Not allowed", "429": "Too many calls: see Retry-After"}
WITH_PART = {"404": "Not there, or not yours to see"}
WITH_QUERY = {"400": "A value in the address is not right", "404": "The cursor is not right"}
WITH_BODY = {
    "400": "The body is not right: see `errors`",
    "413": "The body is too large",
    "415": "Only JSON is read",
}
WITH_CHANGE = {
    "400": "The request is not right: see `errors`",
    "404": "Not there, or not yours to see",
    "409": "Its state does not allow this",
    "422": "The key was used for something else",
}
WITH_VERSION = {"412": "It was changed since you read it", "428": "Say which version you have seen"}
WITH_SINCE = {"410": "What came after this event is no longer kept: begin anew"}
NOT_SENT = {"description": "You have it already"}
IF_NONE_MATCH = {
    "in": "header",
    "name": "If-None-Match",
    "schema": {"type": "string"},
    "description": "the ETag of the last answer: 304 where nothing has changed since",
}


def with_problems(
    result: dict[str, Any], generator: SchemaGenerator, request: Any, public: bool
) -> dict[str, Any]:
    """Postprocessing hook: the problems that each operation may answer with, and 304."""
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
                operation["responses"]["304"] = NOT_SENT
                operation.setdefault("parameters", []).append(IF_NONE_MATCH)
    return result


def _problems(path: str, method: str, operation: dict[str, Any]) -> dict[str, str]:
    found = dict(ALWAYS)
    parameters = operation.get("parameters", [])
    if any(one["in"] in ("query", "header") for one in parameters):
        found |= WITH_QUERY
    if "{" in path:
        found |= WITH_PART
    if method != "get":
        found |= WITH_CHANGE
    if "requestBody" in operation:
        found |= WITH_BODY
    if any(one["name"] == "If-Match" for one in parameters):
        found |= WITH_VERSION
    if any(one["name"] == "Last-Event-ID" for one in parameters):
        found |= WITH_SINCE
    return found


def _is_conditional(operation: dict[str, Any]) -> bool:
    answer = operation["responses"].get("200", {})
    return "application/json" in answer.get("content", {}) and "ETag" not in answer.get(
        "headers", {}
    )


def listing(row: type[serializers.Serializer[Any]], **more: Any) -> Any:
    """The shape of a list that is never long enough to page: {"results": [row, …]}."""
    name = f"{row.__name__}List"
    return inline_serializer(name=name, fields={"results": row(many=True), **more})
