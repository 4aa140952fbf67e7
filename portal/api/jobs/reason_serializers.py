"""How it looks on the wire why a job waits, when it will start, and what would start now."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rest_framework import serializers

from portal.planning.estimates import BASIS, TIMES
from scheduler.core.model.message import Message


class MessageSerializer(serializers.Serializer[Any]):
    """A sentence as a key and named values, to be told in any language. Empty for what older
    versions wrote."""

    key = serializers.CharField()
    values = serializers.DictField()


class AlternativeSerializer(serializers.Serializer[Any]):
    """A change of the request with which the planner could start the job now."""

    kind = serializers.CharField(
        help_text="model, profile, share, gpus, replicas, spread, node or limit"
    )
    sentence = serializers.CharField(help_text="in English")
    said = MessageSerializer(required=False)
    changes = serializers.DictField(help_text="these fields of the request instead of its own")


class ReasonSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    cls = serializers.ChoiceField(choices=["wait", "change", "ask"])
    sentence = serializers.CharField(help_text="in English")
    said = MessageSerializer(required=False)
    evidence = serializers.DictField()
    unblocks = serializers.CharField(help_text="in English")
    unblocks_said = MessageSerializer(required=False)
    alternatives = AlternativeSerializer(many=True, required=False, help_text="of a queued job")

    def get_fields(self) -> dict[str, Any]:
        """`class` is a word of the language, so the field is named here."""
        fields = super().get_fields()
        return {("class" if name == "cls" else name): field for name, field in fields.items()}


class StartEstimateSerializer(serializers.Serializer[Any]):
    """When a queued job will start: with 10, 50 and 90 % of the forecasts."""

    optimistic = serializers.DateTimeField()
    expected = serializers.DateTimeField()
    pessimistic = serializers.DateTimeField()
    basis = serializers.CharField(help_text="what it rests on, in English")
    basis_said = MessageSerializer(required=False)


class NoEstimateSerializer(serializers.Serializer[Any]):
    """Why a waiting job has no estimate, or not before when it starts."""

    code = serializers.CharField(
        help_text="nothing, quota, budget, pending_limit, approval, held, dependency, "
        "node_unavailable, impossible or begin_time"
    )
    sentence = serializers.CharField(help_text="in English")
    said = MessageSerializer()


def estimate_data(stored: Mapping[str, Any]) -> dict[str, Any]:
    """An estimate as a job's row has it, as StartEstimateSerializer does."""
    times = {name: datetime.fromtimestamp(stored[name], UTC) for name in TIMES}
    basis = {name: stored[name] for name in BASIS if name in stored}
    return dict(StartEstimateSerializer(times | basis).data)


def no_estimate_data(said: Message | None) -> dict[str, Any] | None:
    """As NoEstimateSerializer has it."""
    if said is None:
        return None
    code = said.key.removeprefix("no_estimate.")
    return {"code": code, "sentence": said.text, "said": said.as_dict()}
