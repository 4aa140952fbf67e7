"""Serializers of registries. No response has a password."""

from typing import Any

from rest_framework import serializers

from agents.contract.registries import MAX_PASSWORD_BYTES, MAX_USER_LENGTH
from portal.api.protocol.moments import UtcDateTimeField, UtcModelSerializer
from portal.registries.models import Registry


class RegistrySerializer(UtcModelSerializer[Registry]):
    address = serializers.CharField(
        help_text="a host, or a host and the beginning of a path: ghcr.io, ghcr.io/team"
    )
    user = serializers.CharField(help_text="as whom images are pulled")
    author = serializers.CharField(help_text="who set the credential last")
    used_at = UtcDateTimeField(allow_null=True, help_text="when a node last pulled with it")

    class Meta:
        model = Registry
        fields = ("address", "user", "author", "set_at", "used_at")


class RegistryRequestSerializer(serializers.Serializer[Any]):
    user = serializers.CharField(max_length=MAX_USER_LENGTH, help_text="as whom to pull")
    password = serializers.CharField(
        trim_whitespace=False,
        max_length=MAX_PASSWORD_BYTES,
        write_only=True,
        help_text="a password or a token that may only read; no response has it",
    )
