"""What addresses of jobs may be asked with, after the question mark."""

from typing import Any

from rest_framework import serializers


class DryRunQuery(serializers.Serializer[Any]):
    dry_run = serializers.BooleanField(default=False, help_text="check only, create nothing")


class LogQuery(serializers.Serializer[Any]):
    attempt = serializers.IntegerField(min_value=1, max_value=1 << 31, required=False)
    rank = serializers.IntegerField(min_value=0, max_value=1 << 15, default=0)
    offset = serializers.IntegerField(min_value=0, max_value=1 << 62, default=0)
    limit = serializers.IntegerField(min_value=1, max_value=1 << 20, default=1 << 16)


class WaitQuery(serializers.Serializer[Any]):
    wait = serializers.IntegerField(
        min_value=0, max_value=30, default=0, help_text="seconds to wait for something new"
    )
    since = serializers.IntegerField(
        min_value=0,
        max_value=1 << 62,
        required=False,
        help_text="the `last_event` that was seen; by default what there is now",
    )


class StreamQuery(serializers.Serializer[Any]):
    since = serializers.IntegerField(
        min_value=0, max_value=1 << 62, required=False, help_text="by default, from now on"
    )
    job = serializers.CharField(max_length=24, required=False, help_text="only of this job")


class EventQuery(serializers.Serializer[Any]):
    since = serializers.IntegerField(min_value=0, max_value=1 << 62, default=0)
