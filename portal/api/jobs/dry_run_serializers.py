"""Serializers of a dry run: where and when a request would start, and its quotas and budgets."""

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rest_framework import serializers

from portal.allocations.selectors import gpu_hours
from portal.api.jobs.reason_serializers import (
    AlternativeSerializer,
    NoEstimateSerializer,
    ReasonSerializer,
    StartEstimateSerializer,
    estimate_data,
    no_estimate_data,
)
from portal.api.protocol.moments import UtcDateTimeField
from portal.planning.estimates import estimate_as_dict, no_estimate_for_code
from portal.quotas.limits import LimitEffect
from portal.submission.dry_run import DryRunResult, DryRunVerdict, PlannedDevice
from portal.submission.launch_preview import LaunchPreview
from scheduler.core.request import request_as_dict
from scheduler.core.request.values import FieldWarning

VERDICTS = [(str(verdict), str(verdict)) for verdict in DryRunVerdict]
LIMITS = [("quota", "quota"), ("budget", "budget")]


class PlannedDeviceSerializer(serializers.Serializer[Any]):
    """A device that a replica would get."""

    rank = serializers.IntegerField()
    node = serializers.CharField()
    gpu = serializers.IntegerField(help_text="index on its node")
    kind = serializers.CharField(help_text="gpu, mig or mps")
    profile = serializers.CharField(allow_blank=True)
    threads = serializers.IntegerField(help_text="percent of the SMs for an MPS share, else 0")
    memory_mib = serializers.IntegerField()
    units = serializers.IntegerField(help_text="56,000 units are one GPU")
    carved = serializers.BooleanField(
        help_text="would be carved for the job in seconds; neighbours keep running"
    )


class LimitUsageSerializer(serializers.Serializer[Any]):
    """A quota or budget that the job would count against, before and after it."""

    of = serializers.ChoiceField(
        LIMITS, help_text="a quota is in units, a budget in unit-seconds; 56,000 units are one GPU"
    )
    user = serializers.CharField(allow_blank=True, help_text="empty: the whole project")
    model = serializers.CharField(allow_blank=True, help_text="GPU model; empty: every model")
    used = serializers.IntegerField(
        help_text="in use now; for a budget, including what running jobs may still use"
    )
    promised = serializers.IntegerField(
        help_text="kept for jobs ahead, which nobody holds yet; counts against the limit"
    )
    would_be = serializers.IntegerField(help_text="with this job; for a budget, at most")
    limit = serializers.IntegerField(help_text="including what may be borrowed")
    is_over = serializers.BooleanField()
    ends_at = UtcDateTimeField(allow_null=True, help_text="end of the budget")


class FieldWarningSerializer(serializers.Serializer[Any]):
    """What is allowed in the request, but will probably fail."""

    field = serializers.CharField(help_text="path of the field")
    sentence = serializers.CharField()
    combination = serializers.CharField(
        allow_blank=True, help_text="code of what does not go well together; else empty"
    )


def warnings_data(warnings: Iterable[FieldWarning]) -> list[dict[str, str]]:
    return [
        {"field": each.field, "sentence": each.sentence, "combination": each.combination}
        for each in warnings
    ]


class LaunchedReplicaSerializer(serializers.Serializer[Any]):
    """What of a replica's start differs from the others."""

    rank = serializers.IntegerField()
    node = serializers.CharField(
        allow_blank=True, help_text="where it would start at once; else empty"
    )
    command = serializers.ListField(
        child=serializers.CharField(), help_text="empty if all replicas have the same"
    )
    environment = serializers.DictField(child=serializers.CharField(allow_blank=True))
    files = serializers.DictField(child=serializers.CharField(allow_blank=True))


class LaunchSerializer(serializers.Serializer[Any]):
    """How the launcher would start the replicas in containers. Addresses, ports and ids of devices
    are examples; values of secrets are hidden."""

    command = serializers.ListField(
        child=serializers.CharField(),
        help_text="of every replica; empty if each has its own, or the image has it",
    )
    environment = serializers.DictField(
        child=serializers.CharField(allow_blank=True), help_text="of every replica"
    )
    files = serializers.DictField(
        child=serializers.CharField(allow_blank=True),
        help_text="of every replica: texts by path in the container",
    )
    replicas = LaunchedReplicaSerializer(
        many=True, help_text="the first ones, at most 8: the containers"
    )
    omitted_replicas = serializers.IntegerField(help_text="how many more there are")
    joined_replicas = serializers.IntegerField(
        help_text="how many replicas of the request each of these containers runs"
    )
    sharing = serializers.CharField(
        allow_blank=True, help_text="how replicas on one node share a container; empty if not"
    )


class DryRunSerializer(serializers.Serializer[Any]):
    """The outcome of a submit now, without reserving anything. If the job would need an approval,
    the rest is as if it were approved now."""

    possible = serializers.BooleanField(
        help_text="false: the request can never run on this cluster"
    )
    verdict = serializers.ChoiceField(VERDICTS)
    as_of = UtcDateTimeField(help_text="time of the cluster state, at most a minute old")
    reason = ReasonSerializer(
        allow_null=True, help_text="why it can never run, or why it would wait"
    )
    approval = ReasonSerializer(allow_null=True, help_text="why it would need an approval")
    placement = PlannedDeviceSerializer(
        many=True, help_text="devices, if it would start at once; else empty"
    )
    starting_replicas = serializers.IntegerField(
        help_text="how many replicas would start at once; 0 if it would wait"
    )
    units = serializers.IntegerField(
        help_text="units it would use at a time; 56,000 units are one GPU"
    )
    gpu_hours = serializers.CharField(help_text="at most, rounded up to four decimals")
    estimate = StartEstimateSerializer(
        allow_null=True, help_text="when it would start, if it would wait"
    )
    no_estimate = NoEstimateSerializer(allow_null=True, help_text="why there is no estimate")
    limits = LimitUsageSerializer(
        many=True, help_text="every quota and budget it would count against"
    )
    alternatives = AlternativeSerializer(
        many=True,
        help_text="changed requests that would start now (if impossible: could run at all)",
    )
    warnings = FieldWarningSerializer(
        many=True,
        help_text="what will probably fail, and variables that look like secrets",
    )
    request = serializers.DictField(help_text="the request with all defaults filled in")
    launch = LaunchSerializer()

    def to_representation(self, result: DryRunResult) -> dict[str, Any]:
        waits = result.reason is not None and result.verdict is not DryRunVerdict.NEVER
        reason_for_none = None
        if waits and not result.estimate:
            reason_for_none = no_estimate_for_code(
                str((result.reason or {})["code"]), result.begins_at
            )
        return {
            "possible": result.verdict is not DryRunVerdict.NEVER,
            "verdict": str(result.verdict),
            "as_of": result.at,
            "reason": result.reason,
            "approval": result.approval.as_dict() if result.approval else None,
            "placement": [_device_data(device) for device in result.devices],
            "starting_replicas": result.starting_replicas,
            "units": result.units,
            "gpu_hours": str(gpu_hours(result.unit_seconds)),
            "estimate": estimate_data(estimate_as_dict(result.estimate))
            if result.estimate
            else None,
            "no_estimate": no_estimate_data(reason_for_none),
            "limits": [_limit_data(effect) for effect in result.limits],
            "alternatives": [alternative.as_dict() for alternative in result.alternatives],
            "warnings": warnings_data(result.warnings),
            "request": request_as_dict(result.request),
            "launch": _launch_data(result.launch()),
        }


def _launch_data(preview: LaunchPreview) -> dict[str, Any]:
    return asdict(preview) | {"sharing": preview.sharing.text}


def _device_data(device: PlannedDevice) -> dict[str, Any]:
    fields = asdict(device)
    return fields | {"carved": fields.pop("is_carved")}


def _limit_data(effect: LimitEffect) -> dict[str, Any]:
    return {
        "of": "budget" if effect.is_budget else "quota",
        "user": effect.user,
        "model": effect.model,
        "used": effect.before,
        "promised": effect.promised,
        "would_be": effect.after,
        "limit": effect.limit,
        "is_over": effect.is_exceeded,
        "ends_at": None if effect.ends_at is None else datetime.fromtimestamp(effect.ends_at, UTC),
    }
