"""Serializers of secrets. No response has a value."""

from typing import Any

from rest_framework import serializers

from agents.contract.job_secrets import MAX_SECRET_BYTES
from portal.api.protocol.moments import UtcDateTimeField, UtcModelSerializer
from portal.job_secrets.models import JobSecret


class SecretSerializer(UtcModelSerializer[JobSecret]):
    author = serializers.CharField(help_text="who set its value last")
    used_at = UtcDateTimeField(allow_null=True, help_text="when a node was last given it for a job")

    class Meta:
        model = JobSecret
        fields = ("name", "author", "set_at", "used_at")


class SecretRequestSerializer(serializers.Serializer[Any]):
    value = serializers.CharField(
        trim_whitespace=False,
        max_length=MAX_SECRET_BYTES,
        write_only=True,
        help_text="text of at least 8 characters; no response has it",
    )
