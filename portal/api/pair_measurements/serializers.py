"""Serializers of measurements of pairs."""

from typing import Any

from rest_framework import serializers

from agents.contract.message import read_message
from portal.api.protocol.moments import UtcModelSerializer
from portal.node_pairs.judgement import PairVerdict
from portal.node_pairs.models import PairMeasurement

# 10 TB/s: more than any network has.
MAX_EXPECTED = 10_000_000


class PairMeasurementSerializer(UtcModelSerializer[PairMeasurement]):
    """Bandwidths are bus bandwidths in MB/s (10^6 bytes)."""

    first = serializers.CharField(source="first.name", help_text="the node with the lower name")
    second = serializers.CharField(source="second.name")
    job = serializers.CharField(
        source="measuring_job.label", help_text="whose log has the table of nccl-tests"
    )
    measured_by = serializers.SerializerMethodField(
        help_text="admin: a job that an admin started for it; preflight: the network check of a job"
    )
    started_by = serializers.CharField(
        source="actor", help_text="the admin, or the owner of the job that was checked"
    )
    verdict = serializers.ChoiceField(
        choices=[str(verdict) for verdict in PairVerdict],
        help_text="slow: below 35 % of what is expected; unjudged: none is known to compare with",
    )
    is_current = serializers.BooleanField(
        help_text="of the results of its pair, it is the last; gangs avoid a pair while that is "
        "slow or wrong"
    )
    expected_source = serializers.CharField(
        help_text="line_rate: of the rails of the slower node; admin: by hand; empty: unknown"
    )
    problem = serializers.SerializerMethodField(help_text="why there is no result; empty if one is")

    class Meta:
        model = PairMeasurement
        fields = [
            "id",
            "first",
            "second",
            "job",
            "measured_by",
            "started_by",
            "created_at",
            "verdict",
            "is_current",
            "busbw_mb_per_second",
            "message_bytes",
            "wrong_values",
            "expected_mb_per_second",
            "expected_source",
            "problem",
            "finished_at",
        ]

    def get_measured_by(self, row: PairMeasurement) -> str:
        return "preflight" if row.attempt_id else "admin"

    def get_problem(self, row: PairMeasurement) -> str:
        message = read_message(row.problem)
        return message.text if message else ""


class PairMeasurementRequestSerializer(serializers.Serializer[Any]):
    nodes = serializers.ListField(
        child=serializers.CharField(max_length=64), min_length=2, max_length=2
    )
    project = serializers.CharField(
        max_length=64, help_text="the job runs in it, with you as its owner"
    )
    expected_mb_per_second = serializers.IntegerField(
        min_value=0,
        max_value=MAX_EXPECTED,
        required=False,
        default=0,
        help_text="0: the line rate of the rails, where both nodes offer RDMA",
    )
