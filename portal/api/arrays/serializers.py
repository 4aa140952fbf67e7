"""Serializers of arrays."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.reverse import reverse

from portal.api.protocol.moments import UtcModelSerializer
from portal.arrays.models import JobArray


class MemberCountsSerializer(serializers.Serializer[Any]):
    """The members of an array by state."""

    running = serializers.IntegerField(help_text="members that have devices")
    waiting = serializers.IntegerField()
    succeeded = serializers.IntegerField()
    failed = serializers.IntegerField(help_text="with those that ran beyond their time limit")
    cancelled = serializers.IntegerField()


class ArrayRefuseRequestSerializer(serializers.Serializer[Any]):
    because = serializers.CharField(max_length=200)


class ArrayLinksSerializer(serializers.Serializer[Any]):
    self = serializers.CharField()
    members = serializers.CharField()
    metrics = serializers.CharField()
    cancel = serializers.CharField()
    retry = serializers.CharField()


class ArraySerializer(UtcModelSerializer[JobArray]):
    """One array. The context has `counts`, and `request` as the caller may read it."""

    id = serializers.CharField(source="label")
    project = serializers.CharField(source="project.slug")
    owner = serializers.CharField(source="owner.username")
    members = serializers.SerializerMethodField()
    request = serializers.SerializerMethodField(
        help_text="with `array` and `sweep`: submit it again to run all members again"
    )
    links = serializers.SerializerMethodField()

    class Meta:
        model = JobArray
        fields = [
            *("id", "project", "owner", "name", "size", "max_running", "submitted_at"),
            *("members", "request", "links"),
        ]

    @extend_schema_field(MemberCountsSerializer)
    def get_members(self, array: JobArray) -> Any:
        return MemberCountsSerializer(self.context["counts"]).data

    @extend_schema_field(serializers.DictField())
    def get_request(self, array: JobArray) -> dict[str, Any]:
        request: dict[str, Any] = self.context["request_fields"]
        return request

    @extend_schema_field(ArrayLinksSerializer)
    def get_links(self, array: JobArray) -> dict[str, str]:
        own = {"self": "array", "metrics": "array-metrics"}
        own |= {"cancel": "array-cancel", "retry": "array-retry"}
        links = {name: reverse(f"api:{route}", [array.label]) for name, route in own.items()}
        return links | {"members": f"{reverse('api:jobs')}?array={array.label}&order=oldest"}
