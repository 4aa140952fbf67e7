"""Every moment that REST reads or writes is in UTC: no serializer has a field of another zone."""

from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from pkgutil import walk_packages

import pytest
from django.test import override_settings
from rest_framework import serializers

import portal.api
from portal.api.protocol.moments import UtcDateTimeField

for module in walk_packages(portal.api.__path__, "portal.api."):
    import_module(module.name)


def below(cls: type[serializers.Serializer]) -> Iterator[type[serializers.Serializer]]:
    for each in cls.__subclasses__():
        if each.__module__.startswith("portal.api."):
            yield each
        yield from below(each)


def moment_fields(cls: type[serializers.Serializer]) -> list[str]:
    if issubclass(cls, serializers.ModelSerializer) and not hasattr(cls, "Meta"):
        return []
    fields = cls().get_fields().items()
    return [
        name
        for name, field in fields
        if isinstance(field, serializers.DateTimeField) and not isinstance(field, UtcDateTimeField)
    ]


def test_no_serializer_has_a_moment_of_another_zone():
    found = {cls.__name__: moment_fields(cls) for cls in below(serializers.Serializer)}
    assert len(found) > 50
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kolkata"])
def test_a_moment_is_written_and_read_in_utc_wherever_the_portal_is(zone):
    with override_settings(TIME_ZONE=zone):
        field = UtcDateTimeField()
        at = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
        assert field.to_representation(at) == "2026-10-25T00:30:00Z"
        assert field.run_validation("2026-10-25T02:30:00+02:00") == at
        assert field.run_validation("2026-10-25T00:30:00") == at
