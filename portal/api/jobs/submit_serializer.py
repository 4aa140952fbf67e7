"""The body of a submit, for the OpenAPI document: made from the table of request fields.

Nothing is checked here: `scheduler.core.request` reads and checks a request.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from scheduler.core.request.choices import choices_of
from scheduler.core.request_fields import FIELDS, FieldKind, RequestField

AnyField = serializers.Field[Any, Any, Any, Any]


class MpsShareSerializer(serializers.Serializer[Any]):
    """A part of one GPU."""

    threads = serializers.IntegerField(min_value=1, max_value=100, help_text="percent of the SMs")
    memory = serializers.CharField(help_text="such as 20GiB")


class JobVolumeRequestSerializer(serializers.Serializer[Any]):
    """A volume of the project, and its path in the containers. NAME:/path:ro is the same."""

    volume = serializers.CharField(help_text="its name")
    path = serializers.CharField(help_text="such as /data")
    read_only = serializers.BooleanField(  # type: ignore[assignment]  # a field, not the argument
        required=False, help_text="else as far as the volume allows. Default: false"
    )


class DeviceRequestSerializer(serializers.Serializer[Any]):
    """What each replica gets: exactly one of gpus, mig, mps and memory; models and isolation narrow
    the choice."""

    def get_fields(self) -> dict[str, AnyField]:
        return part_fields("device")


class RetriesRequestSerializer(serializers.Serializer[Any]):
    """How often a failed attempt is repeated."""

    def get_fields(self) -> dict[str, AnyField]:
        return part_fields("retries")


class JobSubmitRequestSerializer(serializers.Serializer[Any]):
    """A job request. For the schema only: `scheduler.core.request` parses and checks it."""

    def get_fields(self) -> dict[str, AnyField]:
        return submit_fields(FIELDS)


NESTED: Mapping[str, type[serializers.Serializer[Any]]] = {
    "device": DeviceRequestSerializer,
    "retries": RetriesRequestSerializer,
}


def submit_fields(fields: Iterable[RequestField]) -> dict[str, AnyField]:
    """A field of the body for each field of the table; its parts are in a nested object."""
    found: dict[str, AnyField] = {}
    for field in fields:
        if field.part:
            found[field.top] = NESTED[field.top](required=field.top == "device")
        else:
            found[field.name] = schema_field(field)
    return found


def part_fields(top: str) -> dict[str, AnyField]:
    return {field.part: schema_field(field) for field in FIELDS if field.top == top}


def schema_field(field: RequestField) -> AnyField:
    if field.kind is FieldKind.SHARE:
        return MpsShareSerializer(required=False, help_text=field.help)
    options: dict[str, Any] = {
        "required": field.is_required,
        "help_text": field.help + field.example_and_default,
    }
    if choices := choices_of(field):
        return serializers.ChoiceField(choices=choices, **options)
    if field.kind is FieldKind.COUNT:
        options["min_value"] = field.minimum
        if field.maximum:
            options["max_value"] = field.maximum
    return SCHEMA_FIELDS[field.kind](**options)


def _texts(**options: Any) -> AnyField:
    return serializers.ListField(child=serializers.CharField(), **options)


@extend_schema_field(
    {
        "oneOf": [
            {"type": "integer", "minimum": 1},
            {
                "type": "object",
                "required": ["min", "max"],
                "properties": {
                    "min": {"type": "integer", "minimum": 1, "description": "the fewest"},
                    "max": {"type": "integer", "minimum": 1, "description": "the most"},
                },
            },
        ]
    }
)
class CountRangeField(serializers.JSONField):
    """A number, or the fewest and the most."""


def _volumes(**options: Any) -> AnyField:
    return JobVolumeRequestSerializer(many=True, **options)


def _variables(**options: Any) -> AnyField:
    return serializers.DictField(child=serializers.CharField(), **options)


SCHEMA_FIELDS: Mapping[FieldKind, Callable[..., AnyField]] = {
    FieldKind.TEXT: serializers.CharField,
    FieldKind.COUNT: serializers.IntegerField,
    FieldKind.COUNT_RANGE: CountRangeField,
    FieldKind.CPU: serializers.JSONField,
    FieldKind.SIZE: serializers.CharField,
    FieldKind.DURATION: serializers.CharField,
    FieldKind.BEGIN: serializers.CharField,
    FieldKind.YES_NO: serializers.BooleanField,
    FieldKind.COMMAND: _texts,
    FieldKind.WORDS: _texts,
    FieldKind.VARIABLES: _variables,
    FieldKind.VOLUMES: _volumes,
}
