"""Serializers of why a job failed, and of what mends it."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from portal.api.jobs.reason_serializers import MessageSerializer
from portal.diagnosis.remedies import RemedyAction
from portal.jobs.failure_causes import Confidence, FailureCause


class AdviceSerializer(serializers.Serializer[Any]):
    """What to do."""

    sentence = serializers.CharField(help_text="in English")
    said = MessageSerializer()


class FailureEvidenceSerializer(serializers.Serializer[Any]):
    """The line of the log that shows the cause."""

    attempt = serializers.IntegerField()
    rank = serializers.IntegerField(help_text="of a gang, the replica that wrote it")
    line = serializers.IntegerField(help_text="its number in that log, from 1")
    text = serializers.CharField(help_text="at most 200 characters, without secrets")


class RemedySerializer(serializers.Serializer[Any]):
    """The change that mends it."""

    action = serializers.ChoiceField(
        choices=[str(each) for each in RemedyAction if each is not RemedyAction.NONE],
        help_text="change: submit the request again with `changes`; edit: correct `field`; "
        "retry: submit the same request",
    )
    sentence = serializers.CharField(help_text="in English")
    said = MessageSerializer()
    changes = serializers.DictField(help_text="the request fields to replace")
    field = serializers.CharField(help_text="empty unless the action is edit")


class FindingSerializer(serializers.Serializer[Any]):
    """Why an attempt failed."""

    cause = serializers.ChoiceField(choices=[str(cause) for cause in FailureCause])
    confidence = serializers.ChoiceField(choices=[str(each) for each in Confidence])
    sentence = serializers.CharField(help_text="what failed, in English; it may quote the log")
    said = MessageSerializer()
    evidence = FailureEvidenceSerializer(allow_null=True)


class DiagnosisSerializer(FindingSerializer):
    """Why a job failed, by its last attempt, and what to do."""

    advice = AdviceSerializer()
    remedy = RemedySerializer(allow_null=True)


def finding_data(stored: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A stored finding or diagnosis as its serializer renders it."""
    if not stored:
        return None
    return {name: value for name, value in stored.items() if name != "log_bytes"}
