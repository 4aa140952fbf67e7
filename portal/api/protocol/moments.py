"""Moments in REST: in UTC with `Z`, whatever the zone of the portal or of the reader.

Pages are on their reader's clock (`portal.web.time_zone`). Programs compare and store what they
read, so they have one clock. `tests/unit/test_rest_moments.py` finds a serializer that has another.
"""

from datetime import UTC, tzinfo
from typing import Any, ClassVar, TypeVar

from django.db import models
from rest_framework import serializers

Row = TypeVar("Row", bound=models.Model)


class UtcDateTimeField(serializers.DateTimeField):
    """Reads RFC 3339, a time without an offset as UTC; writes "2026-11-25T18:00:00Z"."""

    def default_timezone(self) -> tzinfo:
        return UTC


class UtcModelSerializer(serializers.ModelSerializer[Row]):
    """A serializer of rows, their moments in UTC."""

    serializer_field_mapping: ClassVar[dict[Any, Any]] = {
        **serializers.ModelSerializer.serializer_field_mapping,
        models.DateTimeField: UtcDateTimeField,
    }
