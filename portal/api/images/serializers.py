"""Serializers of image policies."""

from typing import Any

from drf_spectacular.utils import OpenApiExample
from rest_framework import serializers

from portal.api.protocol.moments import UtcModelSerializer
from portal.catalogue.models import ImagePolicy, ImageRule
from portal.catalogue.services import MAX_PATTERNS

IMAGES_EXAMPLE = OpenApiExample(
    "two families of images",
    value={"rule": "listed", "patterns": ["pytorch/pytorch:2.*", "registry.example/vision/*"]},
    request_only=True,
)


class ImagePolicySerializer(UtcModelSerializer[ImagePolicy]):
    project = serializers.CharField(source="project.slug")
    patterns = serializers.ListField(child=serializers.CharField())

    class Meta:
        model = ImagePolicy
        fields = ("project", "rule", "patterns", "version")


class ImagePolicyRequestSerializer(serializers.Serializer[Any]):
    rule = serializers.ChoiceField(
        choices=[(str(rule), str(rule)) for rule in ImageRule],
        help_text="any: every image the platform allows; listed: those that match `patterns`",
    )
    patterns = serializers.ListField(
        child=serializers.CharField(max_length=200, trim_whitespace=False),
        default=list,
        max_length=MAX_PATTERNS,
        help_text="image names, in which * matches any text",
    )
