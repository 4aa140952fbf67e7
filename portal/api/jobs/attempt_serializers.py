"""Serializers of the attempts of a job: its replicas, their devices and pulls of their images."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from portal.allocations.models import Allocation
from portal.api.jobs.diagnosis_serializers import FindingSerializer, finding_data
from portal.api.protocol.moments import UtcModelSerializer
from portal.jobs.git_commits import attempt_commit
from portal.jobs.images import attempt_digest
from portal.jobs.models import Attempt, Replica
from portal.jobs.preflights import attempt_image
from portal.jobs.pulls import replica_pull


class AllocatedDeviceSerializer(UtcModelSerializer[Allocation]):
    kind = serializers.CharField(source="slice.kind")
    profile = serializers.CharField(source="slice.profile")
    start = serializers.IntegerField(source="slice.start")
    size = serializers.IntegerField(source="slice.size")
    memory_mib = serializers.IntegerField(source="slice.memory_mib")
    threads = serializers.IntegerField(
        source="slice.threads", help_text="percent of the SMs for an MPS share, else 0"
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


class ReplicaPullSerializer(serializers.Serializer[Any]):
    """How far the pull of a replica's image is."""

    layers_done = serializers.IntegerField()
    layers_total = serializers.IntegerField()
    bytes_done = serializers.IntegerField(help_text="compressed, as downloaded")
    bytes_total = serializers.IntegerField(
        allow_null=True, help_text="null until the size of every layer is known"
    )
    tries = serializers.IntegerField(help_text="the number of this try, from 1")
    max_tries = serializers.IntegerField()
    cause = serializers.CharField(
        help_text="why the last try failed, such as registry_away or stalled; empty while it runs"
    )
    sentence = serializers.CharField()


class ReplicaSerializer(UtcModelSerializer[Replica]):
    node = serializers.CharField(source="location")
    devices = AllocatedDeviceSerializer(source="allocations", many=True)
    pull = serializers.SerializerMethodField(help_text="null unless it waits for its image")

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
            "pull",
            "image_digest",
            "code_commit",
            "ready_at",
            "started_at",
            "finished_at",
        ]

    @extend_schema_field(ReplicaPullSerializer(allow_null=True))
    def get_pull(self, replica: Replica) -> dict[str, Any] | None:
        pull = replica_pull(replica, attempt_image(replica.attempt)) if replica.pull else None
        return ReplicaPullSerializer(pull).data if pull else None


class AttemptSerializer(UtcModelSerializer[Attempt]):
    replicas = ReplicaSerializer(many=True, help_text="its containers")
    placed_replicas = serializers.IntegerField(
        read_only=True, help_text="how many replicas of the job it was placed with"
    )
    is_preflight = serializers.BooleanField(
        read_only=True,
        help_text="whether it checks the network between its nodes instead of running the job",
    )
    joined_replicas = serializers.IntegerField(
        read_only=True, help_text="how many of the job's replicas each of these runs"
    )
    finding = serializers.SerializerMethodField(
        help_text="why it failed; null until that is known, and for other attempts"
    )
    image_digest = serializers.SerializerMethodField(
        help_text="which bytes its image is: of rank 0, which all ranks have; empty until that is "
        "known. After `id:`, the id of an image that no registry has"
    )
    code_commit = serializers.SerializerMethodField(
        help_text="the commit of its code, which all ranks and later attempts have; empty where "
        "the code is of no git repository, and until that is known"
    )

    class Meta:
        model = Attempt
        fields = [
            "number",
            "created_at",
            "ended_at",
            "outcome",
            "image_digest",
            "code_commit",
            "first_failure",
            "finding",
            "is_preflight",
            "placed_replicas",
            "joined_replicas",
            "replicas",
        ]

    @extend_schema_field(FindingSerializer(allow_null=True))
    def get_finding(self, attempt: Attempt) -> dict[str, Any] | None:
        return finding_data(attempt.finding)

    def get_image_digest(self, attempt: Attempt) -> str:
        return attempt_digest(attempt)

    def get_code_commit(self, attempt: Attempt) -> str:
        return attempt_commit(attempt)
