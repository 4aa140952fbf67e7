"""Serializers of jobs, their attempts and their events."""

from copy import copy
from dataclasses import asdict
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.reverse import reverse

from portal.allocations.selectors import gpu_hours
from portal.api.jobs.attempt_serializers import AttemptSerializer
from portal.api.jobs.diagnosis_serializers import (
    DiagnosisSerializer,
    finding_data,
)
from portal.api.jobs.reason_serializers import (
    NoEstimateSerializer,
    ReasonSerializer,
    StartEstimateSerializer,
    WaitBoundSerializer,
    bound_data,
    estimate_data,
    no_estimate_data,
)
from portal.api.protocol.moments import UtcDateTimeField, UtcModelSerializer
from portal.audit.selectors import newest_event_id
from portal.jobs.models import Job
from portal.jobs.selectors import readable_request
from portal.planning.estimates import no_estimate_for_job
from portal.planning.visible_reasons import visible_reason
from portal.planning.wait_bounds import wait_bound
from scheduler.core.model.states import JobStatus


class JobLinksSerializer(serializers.Serializer[Any]):
    self = serializers.CharField()
    cancel = serializers.CharField()
    logs = serializers.CharField()
    events = serializers.CharField()


class KeptFields(UtcModelSerializer[Job]):
    """A serializer that makes its fields from the model once and copies them from then on: to make
    them took a sixth of the time of a submit."""

    _kept: ClassVar[dict[type, dict[str, Any]]] = {}

    def get_fields(self) -> dict[str, Any]:
        fields = self._kept.get(type(self))
        if fields is None:
            fields = self._kept[type(self)] = super().get_fields()
        # None of them is bound: a copy is bound to its own serializer.
        return {name: copy(field) for name, field in fields.items()}


class JobArraySerializer(serializers.Serializer[Any]):
    """The array that a job is a member of."""

    id = serializers.CharField(help_text="such as A-5")
    index = serializers.IntegerField(
        allow_null=True, help_text="null once a retry has taken its place"
    )
    members = serializers.DictField(
        allow_null=True,
        help_text="how many members run, wait, succeeded, failed or were cancelled, where this row "
        "of a list stands for the whole array; else null",
    )


class JobSummarySerializer(KeptFields):
    """A job in a list. The context has `usage`, unit-seconds by job id, and `projects`, whose names
    the caller may read."""

    id = serializers.CharField(source="label")
    project = serializers.CharField(source="project.slug")
    owner = serializers.CharField(source="owner.username")
    replicas = serializers.IntegerField(
        source="replica_count", help_text="the fewest, where the request has several numbers"
    )
    held_by = serializers.CharField(source="hold_owner", read_only=True)
    held_because = serializers.CharField(source="hold_reason", read_only=True)
    reason = serializers.SerializerMethodField()
    estimate = serializers.SerializerMethodField(
        help_text="null without enough history, and for a job that is not queued"
    )
    no_estimate = serializers.SerializerMethodField(
        help_text="why a waiting job has no estimate; null for all others"
    )
    bound = serializers.SerializerMethodField(
        help_text="when a wait ends at the latest, and who ends it; null if the reason says all"
    )
    diagnosis = serializers.SerializerMethodField(
        help_text="why it failed and what mends it; null until that is known, and for other jobs"
    )
    array = serializers.SerializerMethodField(help_text="null for a job of no array")
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
            "diagnosis",
            "reason",
            "position",
            "estimate",
            "no_estimate",
            "bound",
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
            "array",
            "links",
        ]

    @extend_schema_field(ReasonSerializer(allow_null=True))
    def get_reason(self, job: Job) -> dict[str, Any] | None:
        return visible_reason(job.reason, self.context["projects"])

    @extend_schema_field(StartEstimateSerializer(allow_null=True))
    def get_estimate(self, job: Job) -> dict[str, Any] | None:
        if not job.estimate or JobStatus(job.status) is not JobStatus.QUEUED:
            return None
        return estimate_data(job.estimate)

    @extend_schema_field(NoEstimateSerializer(allow_null=True))
    def get_no_estimate(self, job: Job) -> dict[str, Any] | None:
        return no_estimate_data(no_estimate_for_job(job))

    @extend_schema_field(WaitBoundSerializer(allow_null=True))
    def get_bound(self, job: Job) -> dict[str, Any] | None:
        return bound_data(wait_bound(job))

    @extend_schema_field(DiagnosisSerializer(allow_null=True))
    def get_diagnosis(self, job: Job) -> dict[str, Any] | None:
        return finding_data(job.diagnosis)

    @extend_schema_field(JobArraySerializer(allow_null=True))
    def get_array(self, job: Job) -> dict[str, Any] | None:
        if job.array_id is None:
            return None
        counts = self.context.get("members", {}).get(job.array_id) if job.is_array_row else None
        members = asdict(counts) if counts else None
        return {"id": f"A-{job.array_id}", "index": job.array_index, "members": members}

    def get_gpu_hours(self, job: Job) -> str:
        return str(gpu_hours(self.context["usage"].get(job.pk, 0)))

    @extend_schema_field(JobLinksSerializer)
    def get_links(self, job: Job) -> dict[str, str]:
        routes = {"self": "job", "cancel": "job-cancel", "logs": "job-logs", "events": "job-events"}
        return {k: reverse(f"api:{v}", [job.label]) for k, v in routes.items()}


class ReplicaExitSerializer(serializers.Serializer[Any]):
    rank = serializers.IntegerField()
    exit_code = serializers.IntegerField(allow_null=True)
    memory_kill = serializers.BooleanField()
    sentence = serializers.CharField()


class JobResultSerializer(serializers.Serializer[Any]):
    """How the last attempt ended."""

    attempt = serializers.IntegerField()
    outcome = serializers.CharField()
    first_failure = serializers.DictField(allow_null=True)
    replicas = ReplicaExitSerializer(many=True)


class JobSerializer(JobSummarySerializer):
    """One job. The context has `attempts` as well, and `newest_event` where it is known."""

    request = serializers.SerializerMethodField(
        help_text="submit it again to run the job again; its owner and project admins read the "
        "values of `env`, others ***"
    )
    attempts = serializers.SerializerMethodField()
    result = serializers.SerializerMethodField()
    last_event = serializers.SerializerMethodField(help_text="id of its newest event")

    class Meta(JobSummarySerializer.Meta):
        fields = [*JobSummarySerializer.Meta.fields, "request", "attempts", "result", "last_event"]

    @extend_schema_field(serializers.DictField())
    def get_request(self, job: Job) -> dict[str, Any]:
        return readable_request(self.context["caller"], job)

    def get_last_event(self, job: Job) -> int:
        known = self.context.get("newest_event")
        return newest_event_id(job) if known is None else int(known)

    @extend_schema_field(AttemptSerializer(many=True))
    def get_attempts(self, job: Job) -> Any:
        return AttemptSerializer(self.context["attempts"], many=True).data

    @extend_schema_field(JobResultSerializer(allow_null=True))
    def get_result(self, job: Job) -> dict[str, Any] | None:
        ended = [attempt for attempt in self.context["attempts"] if attempt.ended_at]
        if not ended:
            return None
        last = ended[-1]
        return {
            "attempt": last.number,
            "outcome": last.outcome,
            "first_failure": last.first_failure,
            "replicas": ReplicaExitSerializer(last.replicas.all(), many=True).data,
        }


class EventSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    at = UtcDateTimeField()
    noun = serializers.CharField()
    noun_id = serializers.CharField()
    old = serializers.CharField()
    new = serializers.CharField()
    code = serializers.CharField()
    sentence = serializers.CharField()
    actor = serializers.CharField()
    data = serializers.DictField()  # type: ignore[assignment]  # a field, not the property


class NewJobLinksSerializer(serializers.Serializer[Any]):
    self = serializers.CharField()


class NewJobSerializer(serializers.Serializer[Any]):
    """One of many new jobs; its address has the rest."""

    id = serializers.CharField(help_text="such as J-12")
    uid = serializers.UUIDField()
    name = serializers.CharField()
    project = serializers.CharField()
    status = serializers.CharField(help_text="queued or awaiting_approval")
    links = NewJobLinksSerializer()


class BulkSubmitSerializer(serializers.Serializer[Any]):
    results = NewJobSerializer(many=True, help_text="in the order of the requests")
    submitted = serializers.IntegerField()


class BulkDryRunSerializer(serializers.Serializer[Any]):
    """What all jobs of a bulk submit would have together. Where a job would start is answered for
    one request at a time."""

    jobs = serializers.IntegerField()
    awaiting_approval = serializers.IntegerField(help_text="jobs that an admin has to approve")
    units = serializers.IntegerField(help_text="if all ran at once; 56,000 units are one GPU")
    gpu_hours = serializers.CharField(help_text="at most, rounded up to four decimals")


class CancelResultSerializer(serializers.Serializer[Any]):
    """The outcome for one job: its status now, or why it was refused."""

    id = serializers.CharField()
    status = serializers.CharField(help_text="status of the job; empty if refused")
    code = serializers.CharField(help_text="code of the refusal; empty if cancelled")
    message = serializers.CharField()


class BulkCancelSerializer(serializers.Serializer[Any]):
    results = CancelResultSerializer(many=True)
    cancelled = serializers.IntegerField()
    refused = serializers.IntegerField()
    more = serializers.BooleanField(help_text="more jobs match the filter: send it again")
