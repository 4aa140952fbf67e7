"""What the schema says beyond the views: every operation may answer with a problem."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import inline_serializer
from rest_framework import serializers

from agents.contract.documents import GpuMode
from portal.inventory.models import words
from portal.what_if.models import Status
from scheduler.core.states import (
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
    },
    "required": ["type", "title", "status", "detail", "instance", "code", "errors"],
}
METHODS = {"get", "post", "put", "patch", "delete"}


class BearerScheme(OpenApiAuthenticationExtension):
    """The token in the Authorization header."""

    target_class = "portal.api.access.BearerToken"
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}


def with_problems(
    result: dict[str, Any], generator: SchemaGenerator, request: Any, public: bool
) -> dict[str, Any]:
    """Postprocessing hook: add the problem answer to every operation."""
    result.setdefault("components", {}).setdefault("schemas", {})["Problem"] = PROBLEM_SCHEMA
    answer = {
        "description": "Refused",
        "content": {"application/problem+json": {"schema": PROBLEM}},
    }
    for operations in result["paths"].values():
        for method in METHODS & set(operations):
            operations[method]["responses"]["4XX"] = answer
    return result


def listing(row: type[serializers.Serializer[Any]], **more: Any) -> Any:
    """The shape of a list that is never long enough to page: {"results": [row, …]}."""
    name = f"{row.__name__}List"
    return inline_serializer(name=name, fields={"results": row(many=True), **more})
