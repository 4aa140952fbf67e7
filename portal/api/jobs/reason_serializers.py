"""Serializers of why a job waits, when it is expected to start, and which change would start it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rest_framework import serializers

from agents.contract.message import Message
from portal.planning.estimates import BASIS, TIMES


class MessageSerializer(serializers.Serializer[Any]):
    """A sentence as a key and named values, for translation. Empty in rows of older versions."""

    key = serializers.CharField()
    values = serializers.DictField()


class AlternativeSerializer(serializers.Serializer[Any]):
    """A change to the request with which the planner could start the job now."""

    kind = serializers.CharField(
        help_text="model, profile, share, gpus, replicas, spread, node or limit"
    )
    sentence = serializers.CharField(help_text="in English")
    said = MessageSerializer(required=False)
    changes = serializers.DictField(help_text="the request fields to replace")


class ReasonSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    cls = serializers.ChoiceField(choices=["wait", "change", "ask"])
    sentence = serializers.CharField(help_text="in English")
    said = MessageSerializer(required=False)
    evidence = serializers.DictField()
    unblocks = serializers.CharField(help_text="in English")
    unblocks_said = MessageSerializer(required=False)
    alternatives = AlternativeSerializer(
        many=True, required=False, help_text="only for a queued job"
    )

    def get_fields(self) -> dict[str, Any]:
        """`class` is a Python keyword, so the field is renamed here."""
        fields = super().get_fields()
        return {("class" if name == "cls" else name): field for name, field in fields.items()}


class StartEstimateSerializer(serializers.Serializer[Any]):
    """When a queued job will start: the 10th, 50th and 90th percentile of the forecasts."""

    optimistic = serializers.DateTimeField()
    expected = serializers.DateTimeField()
    pessimistic = serializers.DateTimeField()
    basis = serializers.CharField(help_text="basis of the estimate, in English")
    basis_said = MessageSerializer(required=False)


class NoEstimateSerializer(serializers.Serializer[Any]):
    """Why a waiting job has no estimate, or the earliest time it may start."""

    code = serializers.CharField(
        help_text="nothing, quota, budget, pending_limit, approval, held, dependency, "
        "node_unavailable, impossible or begin_time"
    )
    sentence = serializers.CharField(help_text="in English")
    said = MessageSerializer()


def estimate_data(stored: Mapping[str, Any]) -> dict[str, Any]:
    """A stored estimate as StartEstimateSerializer renders it."""
    times = {name: datetime.fromtimestamp(stored[name], UTC) for name in TIMES}
    basis = {name: stored[name] for name in BASIS if name in stored}
    return dict(StartEstimateSerializer(times | basis).data)


def no_estimate_data(message: Message | None) -> dict[str, Any] | None:
    """The message as NoEstimateSerializer renders it; None for a job that has an estimate."""
    if message is None:
        return None
    code = message.key.removeprefix("no_estimate.")
    return {"code": code, "sentence": message.text, "said": message.as_dict()}
