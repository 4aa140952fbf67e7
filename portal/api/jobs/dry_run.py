"""A submit that creates nothing: where it would run, when, and what it would leave of quotas."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from drf_spectacular.utils import OpenApiExample
from rest_framework import serializers

from portal.api.jobs.reason_serializers import (
    AlternativeShape,
    EstimateShape,
    NoEstimateShape,
    ReasonShape,
    estimate_told,
    no_estimate_told,
)
from portal.jobs.selectors import gpu_hours
from portal.planning.estimates import as_dict, no_estimate
from portal.quotas.limits import Against
from portal.submission.dry_run import Foreseen, Verdict
from scheduler.core.request import request_as_dict

VERDICTS = [(str(verdict), str(verdict)) for verdict in Verdict]
LIMITS = [("quota", "quota"), ("budget", "budget")]


class GivenShape(serializers.Serializer[Any]):
    """A device that a replica would get."""

    rank = serializers.IntegerField()
    node = serializers.CharField()
    gpu = serializers.IntegerField(help_text="index on its node")
    kind = serializers.CharField(help_text="gpu, mig or mps")
    profile = serializers.CharField(allow_blank=True)
    threads = serializers.IntegerField(help_text="percent of the SMs, for an MPS share; else 0")
    memory_mib = serializers.IntegerField()
    units = serializers.IntegerField(help_text="56,000 are a GPU")
    carved = serializers.BooleanField(help_text="made for it in seconds; what runs beside goes on")


class LimitShape(serializers.Serializer[Any]):
    """A limit that the job would count against, before and after it."""

    of = serializers.ChoiceField(
        LIMITS, help_text="a quota is in units, a budget in unit-seconds; 56,000 units are a GPU"
    )
    user = serializers.CharField(allow_blank=True, help_text="empty: the whole project")
    model = serializers.CharField(allow_blank=True, help_text="of GPU; empty: every model")
    used = serializers.IntegerField(help_text="counts now; of a budget with what running work may")
    would_be = serializers.IntegerField(help_text="with this job, of a budget at most")
    limit = serializers.IntegerField(help_text="with what may be borrowed")
    is_over = serializers.BooleanField()
    ends_at = serializers.DateTimeField(allow_null=True, help_text="of a budget")


class DryRunShape(serializers.Serializer[Any]):
    """What would become of it if it were submitted now. Nothing is reserved by asking. Where an
    admin has to approve it, the rest is as if one did now."""

    possible = serializers.BooleanField(help_text="false: it can never run here")
    verdict = serializers.ChoiceField(VERDICTS)
    as_of = serializers.DateTimeField(help_text="of when the answer is: at most a minute ago")
    reason = ReasonShape(allow_null=True, help_text="why never, or why it would wait")
    approval = ReasonShape(allow_null=True, help_text="why an admin would have to approve it first")
    placement = GivenShape(many=True, help_text="where it would start at once; else empty")
    units = serializers.IntegerField(help_text="that it would hold at once; 56,000 are a GPU")
    gpu_hours = serializers.CharField(help_text="at most, rounded up to four decimals")
    estimate = EstimateShape(allow_null=True, help_text="when it would start, where it would wait")
    no_estimate = NoEstimateShape(allow_null=True, help_text="why nobody can say when")
    limits = LimitShape(many=True, help_text="every quota and budget that it would count against")
    alternatives = AlternativeShape(
        many=True, help_text="what would start now, or where it never can, what could run at all"
    )
    request = serializers.DictField(help_text="the request with every default filled in")


def dry_run_told(found: Foreseen) -> dict[str, Any]:
    """As DryRunShape has it."""
    waits = found.reason is not None and found.verdict is not Verdict.NEVER
    none = None
    if waits and not found.start:
        none = no_estimate(str((found.reason or {})["code"]), found.begins_at)
    return {
        "possible": found.verdict is not Verdict.NEVER,
        "verdict": str(found.verdict),
        "as_of": found.at,
        "reason": found.reason,
        "approval": found.approval.as_dict() if found.approval else None,
        "placement": [asdict(device) for device in found.given],
        "units": found.units,
        "gpu_hours": str(gpu_hours(found.unit_seconds)),
        "estimate": estimate_told(as_dict(found.start)) if found.start else None,
        "no_estimate": no_estimate_told(none),
        "limits": [_limit(one) for one in found.against],
        "alternatives": [one.as_dict() for one in found.instead],
        "request": request_as_dict(found.request),
    }


def _limit(one: Against) -> dict[str, Any]:
    return {
        "of": "budget" if one.is_budget else "quota",
        "user": one.user,
        "model": one.model,
        "used": one.held,
        "would_be": one.after,
        "limit": one.limit,
        "is_over": one.is_over,
        "ends_at": None if one.ends_at is None else datetime.fromtimestamp(one.ends_at, UTC),
    }


DRY_RUN_EXAMPLE = OpenApiExample(
    "it would start now (dry_run=true)",
    value={
        "possible": True,
        "verdict": "now",
        "as_of": "2026-11-20T09:30:00Z",
        "reason": None,
        "approval": None,
        "placement": [
            {
                "rank": 0,
                "node": "gpu-a1",
                "gpu": 2,
                "kind": "mig",
                "profile": "1g.18gb",
                "threads": 0,
                "memory_mib": 16_384,
                "units": 8_000,
                "carved": True,
            }
        ],
        "units": 8_000,
        "gpu_hours": "0.2858",
        "estimate": None,
        "no_estimate": None,
        "limits": [
            {
                "of": "quota",
                "user": "",
                "model": "",
                "used": 692_000,
                "would_be": 700_000,
                "limit": 896_000,
                "is_over": False,
                "ends_at": None,
            }
        ],
        "alternatives": [],
        "request": {
            "project": "vision",
            "name": "train-small",
            "image": "pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime",
            "command": ["python", "train.py", "--epochs", "3"],
            "device": {"mig": "1g.18gb"},
            "cpu": "4",
            "memory": "16GiB",
            "time_limit": "2h",
        },
    },
    response_only=True,
    status_codes=["200"],
)
