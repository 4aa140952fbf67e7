"""Serializers of services."""

from typing import Any

from django.conf import settings
from drf_spectacular.utils import OpenApiExample, extend_schema_field
from rest_framework import serializers

from agents.contract.message import read_message
from portal.api.protocol.moments import UtcDateTimeField, UtcModelSerializer
from portal.apps.hosts import AppName, app_host
from portal.job_services.models import JobService
from portal.job_services.values import (
    MAX_CALLS,
    MAX_COPIES,
    MAX_PATH_LENGTH,
    MAX_PERCENT,
    MAX_SECONDS,
    MIN_START_SECONDS,
)

SERVICE_EXAMPLE = OpenApiExample(
    "a language model",
    value={
        "name": "llm",
        "min_copies": 0,
        "max_copies": 4,
        "calls_per_copy": 16,
        "port": 8000,
        "health_path": "/health",
        "request": {
            "project": "vision",
            "image": "vllm/vllm-openai:v0.11.0",
            "command": ["vllm", "serve", "Qwen/Qwen3-8B", "--port", "8000"],
            "device": {"gpus": 1},
            "time_limit": "24h",
        },
    },
    request_only=True,
)
SERVICE_CHANGE_EXAMPLE = OpenApiExample("more copies", value={"max_copies": 8}, request_only=True)


class CopySerializer(serializers.Serializer[Any]):
    """One of the jobs of a service. Of a CopyRow."""

    job = serializers.CharField(source="copy.job.label")
    status = serializers.CharField(
        help_text="ready: it takes calls; leaving: it finishes those that it has; else the status "
        "of its job"
    )
    generation = serializers.IntegerField(source="copy.generation")
    port = serializers.IntegerField(source="copy.port")
    ready_at = UtcDateTimeField(source="copy.ready_at", allow_null=True)
    ended_at = UtcDateTimeField(source="copy.ended_at", allow_null=True)


class BusynessSerializer(serializers.Serializer[Any]):
    """What the web processes report; durations and calls per second are those of a minute."""

    waiting = serializers.IntegerField(help_text="calls that wait until a copy is ready")
    open_calls = serializers.IntegerField(help_text="calls that copies are answering")
    calls_per_second = serializers.FloatField()
    p50_ms = serializers.FloatField(allow_null=True, help_text="null without calls")
    p99_ms = serializers.FloatField(allow_null=True)
    failed_calls = serializers.IntegerField(
        source="errors",
        help_text="calls of the last minute that a copy answered with a status of 500 to 599, or "
        "not at all",
    )


class ServiceSummarySerializer(UtcModelSerializer[JobService]):
    """A service in a list. The context has `ready`, the keys of jobs that take calls by service."""

    id = serializers.CharField(source="label")
    project = serializers.CharField(source="project.slug")
    owner = serializers.CharField(source="owner.username")
    host = serializers.SerializerMethodField(
        help_text="where it is called; empty if this portal serves no apps"
    )
    ready = serializers.SerializerMethodField(help_text="how many copies take calls")
    copies = serializers.IntegerField(help_text="how many there are to be now")
    problem = serializers.SerializerMethodField(
        help_text="why there are fewer than there are to be; empty if nothing failed"
    )
    canary = serializers.SerializerMethodField(
        help_text="the service that gets some of the calls, such as S-9; empty: none does"
    )
    canary_problem = serializers.SerializerMethodField(
        help_text="why the canary gets no calls any more; empty if none of its copies failed"
    )

    class Meta:
        model = JobService
        fields = [
            "id",
            "name",
            "project",
            "owner",
            "host",
            "ready",
            "copies",
            "min_copies",
            "max_copies",
            "calls_per_copy",
            "cool_down_seconds",
            "start_seconds",
            "port",
            "health_path",
            "generation",
            "problem",
            "canary",
            "canary_percent",
            "canary_problem",
            "is_canary_promoted",
            "version",
            "created_at",
            "ended_at",
        ]

    def get_host(self, row: JobService) -> str:
        domain = settings.PLATFORM.apps_domain
        return app_host(AppName(0, row.name, row.pk), domain) if domain else ""

    def get_ready(self, row: JobService) -> int:
        return len(self.context["ready"][row.pk])

    def get_problem(self, row: JobService) -> str:
        message = read_message(row.problem)
        return message.text if message else ""

    def get_canary(self, row: JobService) -> str:
        return f"S-{row.canary_id}" if row.canary_id else ""

    def get_canary_problem(self, row: JobService) -> str:
        message = read_message(row.canary_problem)
        return message.text if message else ""


class ServiceSerializer(ServiceSummarySerializer):
    """One service. The context has `copies`, `busyness` by service, and `request_fields` as the
    caller may read them."""

    request = serializers.SerializerMethodField(help_text="of each copy, without its port")
    jobs = serializers.SerializerMethodField(
        help_text="the copies, the oldest first, then the last five that have ended"
    )
    busyness = serializers.SerializerMethodField()
    canary_ready = serializers.SerializerMethodField(
        help_text="how many copies of the canary take calls"
    )
    canary_busyness = serializers.SerializerMethodField(help_text="null without a canary")

    class Meta(ServiceSummarySerializer.Meta):
        own = ["request", "jobs", "busyness", "canary_ready", "canary_busyness"]
        fields = [*ServiceSummarySerializer.Meta.fields, *own]

    @extend_schema_field(serializers.DictField())
    def get_request(self, row: JobService) -> Any:
        return self.context["request_fields"]

    @extend_schema_field(CopySerializer(many=True))
    def get_jobs(self, row: JobService) -> Any:
        return CopySerializer(self.context["copies"], many=True).data

    @extend_schema_field(BusynessSerializer)
    def get_busyness(self, row: JobService) -> Any:
        return BusynessSerializer(self.context["busyness"][row.pk]).data

    def get_canary_ready(self, row: JobService) -> int:
        return len(self.context["ready"][row.canary_id]) if row.canary_id else 0

    @extend_schema_field(BusynessSerializer(allow_null=True))
    def get_canary_busyness(self, row: JobService) -> Any:
        busyness = self.context["busyness"].get(row.canary_id)
        return BusynessSerializer(busyness).data if busyness else None


class ServiceValuesSerializer(serializers.Serializer[Any]):
    """Fields that are left out keep their value. Changed `request`, `port`: new copies take the
    place of the present ones, one at a time, each once it is ready."""

    min_copies = serializers.IntegerField(
        required=False, min_value=0, max_value=MAX_COPIES, help_text="0: none without calls"
    )
    max_copies = serializers.IntegerField(required=False, min_value=1, max_value=MAX_COPIES)
    calls_per_copy = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_CALLS,
        help_text="with more calls at once than this for each copy, another one starts",
    )
    cool_down_seconds = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=MAX_SECONDS,
        help_text="for so long fewer copies must have been enough before one is stopped",
    )
    start_seconds = serializers.IntegerField(
        required=False,
        min_value=MIN_START_SECONDS,
        max_value=MAX_SECONDS,
        help_text="a running copy that is not ready for so long is replaced",
    )
    port = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=65_535,
        help_text="on which each copy listens; 0: on the PORT of its environment",
    )
    health_path = serializers.CharField(
        required=False,
        max_length=MAX_PATH_LENGTH,
        help_text="a copy takes calls while this answers with a status of 200 to 299",
    )
    request = serializers.DictField(
        required=False, help_text="a job request, as in a submit, without `name` and `kind`"
    )


class ServiceChangeRequestSerializer(ServiceValuesSerializer):
    """What is to be different."""

    canary = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=20,
        help_text="another service of the same owner and project, such as S-9; empty: none",
    )
    canary_percent = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=MAX_PERCENT,
        help_text="of the new calls that the canary gets while one of its copies is ready",
    )


class ServiceCreateRequestSerializer(ServiceValuesSerializer):
    """A new service."""

    name = serializers.CharField(max_length=20, help_text="the first part of its host")
    request = serializers.DictField(
        help_text="a job request, as in a submit, without `name` and `kind`"
    )
