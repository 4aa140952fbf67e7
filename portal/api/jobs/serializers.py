"""How a job looks on the wire, going in and coming out."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.reverse import reverse

from portal.api.jobs.reason_serializers import (
    EstimateShape,
    NoEstimateShape,
    ReasonShape,
    estimate_told,
    no_estimate_told,
)
from portal.audit.selectors import newest_event
from portal.jobs.models import Allocation, Attempt, Job, Replica
from portal.jobs.selectors import gpu_hours
from portal.planning.estimates import why_no_estimate
from portal.planning.visible_reasons import reason_for
from scheduler.core.model.states import JobStatus


class JobRequestBody(serializers.Serializer[Any]):
    """A request as the product defines it. For the schema: scheduler.core.request reads it."""

    project = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=["batch", "notebook", "service"], required=False)
    image = serializers.CharField()
    command = serializers.ListField(child=serializers.CharField())
    launcher = serializers.CharField(required=False)
    replicas = serializers.IntegerField(required=False)
    device = serializers.DictField(
        help_text="exactly one of gpus, mig, mps, memory; and models, isolation"
    )
    cpu = serializers.JSONField(required=False, help_text="cores, such as 8 or 0.5")
    memory = serializers.CharField(required=False, help_text="such as 64GiB")
    shm = serializers.CharField(required=False, help_text="shared memory, such as 16GiB")
    disk = serializers.CharField(
        required=False, help_text="of its node, for each replica, such as 200GiB; none if left out"
    )
    time_limit = serializers.CharField(required=False, help_text="such as 4h")
    priority = serializers.ChoiceField(choices=["low", "normal", "high"], required=False)
    topology = serializers.CharField(required=False)
    backend = serializers.ChoiceField(choices=["auto", "nccl", "gloo"], required=False)
    retries = serializers.DictField(required=False)
    preemptible = serializers.BooleanField(
        required=False, help_text="may be stopped and queued again; true for priority low"
    )
    begin_at = serializers.CharField(
        required=False, help_text="such as 2026-01-31T18:00:00+01:00, or +2h"
    )
    after = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="jobs that must succeed first"
    )
    needs = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="labels of nodes: nvme, zone=a"
    )
    tolerates = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="taints of nodes"
    )
    env = serializers.DictField(child=serializers.CharField(), required=False)


class DeviceShape(serializers.ModelSerializer[Allocation]):
    kind = serializers.CharField(source="slice.kind")
    profile = serializers.CharField(source="slice.profile")
    start = serializers.IntegerField(source="slice.start")
    size = serializers.IntegerField(source="slice.size")
    memory_mib = serializers.IntegerField(source="slice.memory_mib")
    threads = serializers.IntegerField(
        source="slice.threads", help_text="percent of the SMs, for an MPS share; else 0"
    )
    gpu = serializers.IntegerField(source="slice.gpu.index", help_text="index on its node")
    gpu_uuid = serializers.CharField(source="slice.gpu.uuid")

    class Meta:
        model = Allocation
        fields = [
            "kind",
            "profile",
            "start",
            "size",
            "memory_mib",
            "threads",
            "gpu",
            "gpu_uuid",
            "units",
            "status",
            "bound_at",
            "released_at",
        ]


class ReplicaShape(serializers.ModelSerializer[Replica]):
    node = serializers.CharField(source="node.name")
    devices = DeviceShape(source="allocations", many=True)

    class Meta:
        model = Replica
        fields = [
            "rank",
            "node",
            "status",
            "exit_code",
            "memory_kill",
            "code",
            "sentence",
            "log_bytes",
            "devices",
            "ready_at",
            "started_at",
            "finished_at",
        ]


class AttemptShape(serializers.ModelSerializer[Attempt]):
    replicas = ReplicaShape(many=True)

    class Meta:
        model = Attempt
        fields = ["number", "created_at", "ended_at", "outcome", "first_failure", "replicas"]


class JobLinks(serializers.Serializer[Any]):
    self = serializers.CharField()
    cancel = serializers.CharField()
    logs = serializers.CharField()
    events = serializers.CharField()


class JobRow(serializers.ModelSerializer[Job]):
    """A job in a list. The context holds `usage`: unit-seconds by job id; and `projects`: those
    whose names the caller may read."""

    id = serializers.CharField(source="label")
    project = serializers.CharField(source="project.slug")
    owner = serializers.CharField(source="owner.username")
    replicas = serializers.IntegerField(source="replicas_wanted")
    reason = serializers.SerializerMethodField()
    estimate = serializers.SerializerMethodField(
        help_text="null where there is nothing to go by, and for what waits no more"
    )
    no_estimate = serializers.SerializerMethodField(
        help_text="why a waiting job has no estimate; null for all others"
    )
    gpu_hours = serializers.SerializerMethodField(help_text="rounded up to four decimals")
    links = serializers.SerializerMethodField()

    class Meta:
        model = Job
        fields = [
            "id",
            "uid",
            "project",
            "owner",
            "name",
            "kind",
            "image",
            "replicas",
            "priority",
            "status",
            "stop_reason",
            "reason",
            "position",
            "estimate",
            "no_estimate",
            "time_limit_seconds",
            "submitted_at",
            "queued_at",
            "started_at",
            "deadline_at",
            "finished_at",
            "gpu_hours",
            "preemptible",
            "preempted",
            "attained_seconds",
            "begin_at",
            "reserved_at",
            "held_by",
            "held_because",
            "links",
        ]

    @extend_schema_field(ReasonShape(allow_null=True))
    def get_reason(self, job: Job) -> dict[str, Any] | None:
        return reason_for(job.reason, self.context["projects"])

    @extend_schema_field(EstimateShape(allow_null=True))
    def get_estimate(self, job: Job) -> dict[str, Any] | None:
        if not job.estimate or JobStatus(job.status) is not JobStatus.QUEUED:
            return None
        return estimate_told(job.estimate)

    @extend_schema_field(NoEstimateShape(allow_null=True))
    def get_no_estimate(self, job: Job) -> dict[str, Any] | None:
        return no_estimate_told(why_no_estimate(job))

    def get_gpu_hours(self, job: Job) -> str:
        return str(gpu_hours(self.context["usage"].get(job.pk, 0)))

    @extend_schema_field(JobLinks)
    def get_links(self, job: Job) -> dict[str, str]:
        routes = {"self": "job", "cancel": "job-cancel", "logs": "job-logs", "events": "job-events"}
        return {k: reverse(f"api:{v}", [job.label]) for k, v in routes.items()}


class ExitShape(serializers.Serializer[Any]):
    rank = serializers.IntegerField()
    exit_code = serializers.IntegerField(allow_null=True)
    memory_kill = serializers.BooleanField()
    sentence = serializers.CharField()


class ResultShape(serializers.Serializer[Any]):
    """What the last attempt ended with."""

    attempt = serializers.IntegerField()
    outcome = serializers.CharField()
    first_failure = serializers.DictField(allow_null=True)
    replicas = ExitShape(many=True)


class JobWhole(JobRow):
    """One job. The context holds `attempts` besides `usage`."""

    request = serializers.DictField(help_text="submit this again to run it again")
    attempts = serializers.SerializerMethodField()
    result = serializers.SerializerMethodField()
    last_event = serializers.SerializerMethodField(help_text="the id of its newest event")

    class Meta(JobRow.Meta):
        fields = [*JobRow.Meta.fields, "request", "attempts", "result", "last_event"]

    def get_last_event(self, job: Job) -> int:
        return newest_event(job)

    @extend_schema_field(AttemptShape(many=True))
    def get_attempts(self, job: Job) -> Any:
        return AttemptShape(self.context["attempts"], many=True).data

    @extend_schema_field(ResultShape(allow_null=True))
    def get_result(self, job: Job) -> dict[str, Any] | None:
        ended = [attempt for attempt in self.context["attempts"] if attempt.ended_at]
        if not ended:
            return None
        last = ended[-1]
        return {
            "attempt": last.number,
            "outcome": last.outcome,
            "first_failure": last.first_failure,
            "replicas": ExitShape(last.replicas.all(), many=True).data,
        }


class EventShape(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    noun = serializers.CharField()
    noun_id = serializers.CharField()
    old = serializers.CharField()
    new = serializers.CharField()
    code = serializers.CharField()
    sentence = serializers.CharField()
    actor = serializers.CharField()
    data = serializers.DictField()  # type: ignore[assignment]  # a field, not the property
