"""Serializers of why a job waits, when it is expected to start, and which change would start it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rest_framework import serializers

from agents.contract.message import Message
from portal.api.protocol.moments import UtcDateTimeField
from portal.planning.estimates import BASIS, CASES, TIMES, bound_cases
from portal.planning.wait_bounds import JobWaitBound


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


class StopSerializer(serializers.Serializer[Any]):
    """A running job of the same owner that would make room for this one if it stopped."""

    job = serializers.CharField(help_text="its id, without J-")
    name = serializers.CharField()
    started_at = serializers.IntegerField(help_text="seconds since the epoch")
    preemptible = serializers.BooleanField()


class ReasonBoundSerializer(serializers.Serializer[Any]):
    """As stored; the job's field `bound` has the same with timestamps."""

    at = serializers.IntegerField(allow_null=True, help_text="seconds since the epoch")
    is_certain = serializers.BooleanField()
    sentence = serializers.CharField()
    said = MessageSerializer()
    jobs = serializers.ListField(child=serializers.CharField())


class WaitBoundSerializer(serializers.Serializer[Any]):
    """When a wait ends at the latest, and who ends it."""

    at = UtcDateTimeField(allow_null=True, help_text="null if no time can be told")
    is_certain = serializers.BooleanField(
        help_text="whether it holds if running jobs keep their limits and nobody asks for more"
    )
    since = UtcDateTimeField(allow_null=True, help_text="since when a person has to decide")
    sentence = serializers.CharField(help_text="in English, with the time in UTC")
    said = MessageSerializer()
    jobs = serializers.ListField(
        child=serializers.CharField(), help_text="jobs that end then, such as J-5"
    )


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
    stops = StopSerializer(many=True, required=False, help_text="only for a queued job")
    bound = ReasonBoundSerializer(required=False, help_text="only for a queued job")

    def get_fields(self) -> dict[str, Any]:
        """`class` is a Python keyword, so the field is renamed here."""
        fields = super().get_fields()
        return {("class" if name == "cls" else name): field for name, field in fields.items()}


class StartEstimateSerializer(serializers.Serializer[Any]):
    """When a queued job will start: the 10th, 50th and 90th percentile of the forecasts. Only the
    last one where earlier estimates of this kind were off by more than half of the wait."""

    optimistic = UtcDateTimeField(allow_null=True)
    expected = UtcDateTimeField(allow_null=True)
    pessimistic = UtcDateTimeField()
    basis = serializers.CharField(help_text="basis of the estimate, in English")
    basis_said = MessageSerializer(required=False)
    bound_held_in_10 = serializers.IntegerField(
        required=False,
        help_text="in how many of 10 cases a job started by `pessimistic`, if only that is told",
    )


class NoEstimateSerializer(serializers.Serializer[Any]):
    """Why a waiting job has no estimate, or the earliest time it may start."""

    code = serializers.CharField(
        help_text="nothing, far_off, quota, budget, pending_limit, array_cap, approval, held, "
        "dependency, node_unavailable, impossible or begin_time"
    )
    sentence = serializers.CharField(help_text="in English")
    said = MessageSerializer()


def estimate_data(stored: Mapping[str, Any]) -> dict[str, Any]:
    """A stored estimate as StartEstimateSerializer renders it."""
    times: dict[str, Any] = {name: datetime.fromtimestamp(stored[name], UTC) for name in TIMES}
    basis = {name: stored[name] for name in BASIS if name in stored}
    if cases := bound_cases(stored):
        times |= {"optimistic": None, "expected": None, CASES: cases}
    return dict(StartEstimateSerializer(times | basis).data)


def bound_data(bound: JobWaitBound | None) -> dict[str, Any] | None:
    """As WaitBoundSerializer renders it."""
    if bound is None:
        return None
    times = {"at": bound.at, "is_certain": bound.is_certain, "since": bound.since}
    told = {"sentence": bound.sentence, "said": bound.stored["said"], "jobs": bound.jobs}
    return dict(WaitBoundSerializer(times | told).data)


def no_estimate_data(message: Message | None) -> dict[str, Any] | None:
    """The message as NoEstimateSerializer renders it; None for a job that has an estimate."""
    if message is None:
        return None
    code = message.key.removeprefix("no_estimate.")
    return {"code": code, "sentence": message.text, "said": message.as_dict()}
