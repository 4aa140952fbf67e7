"""Input of the job operations: request bodies and query strings. That of a submit is in
`submit_serializer`."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.api.jobs.filters import JobQuerySerializer
from portal.api.jobs.submit_serializer import JobSubmitRequestSerializer
from portal.jobs.bulk_cancel import MAX_JOBS
from portal.submission.services import MAX_JOBS as MAX_SUBMITTED
from scheduler.core.request.quantities import read_seconds


class JobReasonRequestSerializer(serializers.Serializer[Any]):
    because = serializers.CharField(max_length=200)


class JobReplaceRequestSerializer(serializers.Serializer[Any]):
    changes = serializers.DictField(
        help_text="device, replicas, time_limit, topology or needs, as in a request, such as the "
        "`changes` of an alternative"
    )


@extend_schema_field({"type": "string", "example": "1h30m"})
class DurationField(serializers.Field[int, str, str, Any]):
    """A duration with its unit, in seconds once read."""

    def to_internal_value(self, data: Any) -> int:
        try:
            return read_seconds(data)
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from error


class JobExtendRequestSerializer(serializers.Serializer[Any]):
    by = DurationField(help_text="additional time, such as 1h or 90m")


class BulkCancelRequestSerializer(serializers.Serializer[Any]):
    """Either job ids, or a filter as in the job list: its jobs that have not ended."""

    ids = serializers.ListField(
        child=serializers.CharField(max_length=24),
        required=False,
        min_length=1,
        max_length=MAX_JOBS,
        help_text="such as J-12",
    )
    filter = JobQuerySerializer(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("ids" in attrs) == ("filter" in attrs):
            raise serializers.ValidationError({"ids": "Send either ids or filter"})
        if "filter" in attrs and not any(attrs["filter"].values()):
            raise serializers.ValidationError({"filter": "Set at least one field"})
        return attrs


@extend_schema_field(JobSubmitRequestSerializer(many=True))
class RequestListField(serializers.ListField):
    """Requests as they were sent: `scheduler.core.request` reads and checks each."""

    child = serializers.DictField()


class BulkSubmitRequestSerializer(serializers.Serializer[Any]):
    """Requests of jobs, each as for one submit, and how often each is submitted."""

    jobs = RequestListField(min_length=1, max_length=MAX_SUBMITTED, help_text="at most 1,000")
    count = serializers.IntegerField(
        min_value=1,
        max_value=MAX_SUBMITTED,
        default=1,
        help_text="the number of times to submit each request; at most 1,000 jobs in all",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if len(attrs["jobs"]) * attrs["count"] > MAX_SUBMITTED:
            raise serializers.ValidationError({"count": f"At most {MAX_SUBMITTED} jobs in all"})
        return attrs


class DryRunQuerySerializer(serializers.Serializer[Any]):
    dry_run = serializers.BooleanField(
        default=False, help_text="check the request without creating a job"
    )


class LogQuerySerializer(serializers.Serializer[Any]):
    attempt = serializers.IntegerField(min_value=1, max_value=1 << 31, required=False)
    rank = serializers.IntegerField(min_value=0, max_value=1 << 15, default=0)
    offset = serializers.IntegerField(min_value=0, max_value=1 << 62, default=0)
    limit = serializers.IntegerField(min_value=1, max_value=1 << 20, default=1 << 16)


class WaitQuerySerializer(serializers.Serializer[Any]):
    wait = serializers.IntegerField(
        min_value=0, max_value=30, default=0, help_text="seconds to wait for a new event"
    )
    since = serializers.IntegerField(
        min_value=0,
        max_value=1 << 62,
        required=False,
        help_text="the `last_event` that you read; default: the newest event",
    )


class StreamQuerySerializer(serializers.Serializer[Any]):
    since = serializers.IntegerField(
        min_value=0,
        max_value=1 << 62,
        required=False,
        help_text="send only later events; default: from now on",
    )
    job = serializers.CharField(max_length=24, required=False, help_text="only events of this job")


class EventQuerySerializer(serializers.Serializer[Any]):
    since = serializers.IntegerField(min_value=0, max_value=1 << 62, default=0)
