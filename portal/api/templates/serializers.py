"""Serializers of request templates."""

from typing import Any

from drf_spectacular.utils import OpenApiExample
from rest_framework import serializers

from portal.api.protocol.moments import UtcModelSerializer
from portal.catalogue.models import Template

TEMPLATE_EXAMPLE = OpenApiExample(
    "for a project",
    value={
        "name": "Small training",
        "description": "One slice for two hours",
        "project": "vision",
        "request": {
            "image": "pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime",
            "command": ["python", "train.py"],
            "device": {"mig": "1g.18gb"},
            "time_limit": "2h",
        },
    },
    request_only=True,
)
TEMPLATE_CHANGE_EXAMPLE = OpenApiExample(
    "a new name", value={"name": "Small training, two hours"}, request_only=True
)


class TemplateSerializer(UtcModelSerializer[Template]):
    project = serializers.CharField(
        source="project.slug",
        default=None,
        allow_null=True,
        help_text="null: a template for every project",
    )
    request = serializers.DictField(
        help_text="a job request without the fields that differ for each job"
    )

    made_by = serializers.CharField(source="author", read_only=True)

    class Meta:
        model = Template
        fields = (
            "id",
            "project",
            "name",
            "description",
            "request",
            "made_by",
            "version",
            "changed_at",
        )


class TemplateCreateRequestSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=63)
    description = serializers.CharField(
        max_length=200, required=False, default="", allow_blank=True
    )
    project = serializers.CharField(
        max_length=40,
        required=False,
        default="",
        allow_blank=True,
        help_text="empty: for every project (platform admins only)",
    )
    request = serializers.DictField(help_text="a job request, as in a submit")


class TemplateChangeSerializer(serializers.Serializer[Any]):
    """Fields that are left out keep their value."""

    name = serializers.CharField(max_length=63, required=False)
    description = serializers.CharField(max_length=200, required=False, allow_blank=True)
    request = serializers.DictField(required=False)


class TemplateQuerySerializer(serializers.Serializer[Any]):
    project = serializers.CharField(
        max_length=40,
        required=False,
        help_text="its templates and those for every project; default: all that you see",
    )
