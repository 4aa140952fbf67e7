"""Serializers of the model FLOPs utilisation of a job."""

from typing import Any

from rest_framework import serializers

from portal.advice.model_utilisation import ModelUtilisation
from scheduler.advisor.utilisation import SOURCE

NUMBER = serializers.FloatField


class ExpectedSpeedSerializer(serializers.Serializer[Any]):
    """Of the fastest way to divide the training over the same devices, by the advisor."""

    tokens_per_second = NUMBER()
    percent = NUMBER(help_text="of the peak of all devices")
    batch = serializers.IntegerField(help_text="sequences of a step")
    division = serializers.CharField(help_text='such as "TP 2, PP 1, CP 1, DP 4, ZeRO 1"')


class ModelUtilisationSerializer(serializers.Serializer[Any]):
    """Model FLOPs utilisation: tokens a second times FLOPs a token over the peak of all devices."""

    tokens_per_second = NUMBER(help_text="of all devices: the median of the last points")
    flops_per_token = NUMBER(allow_null=True, help_text="of the model; null if unknown")
    flops_reference = serializers.CharField(allow_blank=True, help_text="who says so")
    devices = serializers.CharField(allow_blank=True, help_text='such as "8 × H100"')
    peak_flops = NUMBER(allow_null=True, help_text="of all devices in 16 bits; null if unknown")
    percent = NUMBER(allow_null=True, help_text="null if unknown, or more than devices can reach")
    problem = serializers.CharField(
        allow_blank=True, help_text="why there is no percentage; else empty"
    )
    expected = ExpectedSpeedSerializer(allow_null=True)
    no_expectation = serializers.CharField(
        allow_blank=True, help_text="why nothing is expected; else empty"
    )
    reachable_percent = NUMBER(
        allow_null=True, help_text="of the peak that large matrix products reach on this board"
    )
    reference = serializers.CharField(help_text="source of the formula")


def utilisation_data(utilisation: ModelUtilisation | None) -> dict[str, Any] | None:
    if utilisation is None:
        return None
    expected = utilisation.expected
    return {
        "tokens_per_second": utilisation.tokens_per_second,
        "flops_per_token": utilisation.flops_each or None,
        "flops_reference": utilisation.flops_source.text if utilisation.flops_source else "",
        "devices": utilisation.devices,
        "peak_flops": utilisation.peak_flops or None,
        "percent": utilisation.percent,
        "problem": utilisation.problem.text if utilisation.problem else "",
        "expected": ExpectedSpeedSerializer(expected).data if expected else None,
        "no_expectation": utilisation.no_expectation.text if utilisation.no_expectation else "",
        "reachable_percent": utilisation.reachable_percent or None,
        "reference": SOURCE,
    }
