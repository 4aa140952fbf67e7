"""REST view of where the time of a profiled job went."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.files.time_profiles import JobProfile, TimeCategory, TimeProfile, job_profile
from portal.jobs.selectors import job_visible

COUNT = serializers.IntegerField


class ProfiledOperatorSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="of a kernel of the GPU, or of an operator on the CPU")
    category = serializers.ChoiceField([str(category) for category in TimeCategory])
    calls = COUNT()
    us = COUNT(help_text="of all calls, in microseconds")


class TimeProfileSerializer(serializers.Serializer[Any]):
    """Of one rank over some steps, in microseconds. Each moment counts once: compute,
    communication, copy and idle make up the window."""

    rank = COUNT()
    world = COUNT(help_text="processes of the gang")
    steps = COUNT(help_text="of the optimizer")
    torch = serializers.CharField(help_text="the version of PyTorch")
    device = serializers.CharField(allow_blank=True, help_text="the GPU; empty without one")
    by_device = serializers.BooleanField(
        help_text="kernels of the GPU were counted, not operators on the CPU"
    )
    window_us = COUNT()
    compute_us = COUNT()
    communication_us = COUNT(help_text="that no computing hides")
    copy_us = COUNT(help_text="while nothing computes or communicates")
    idle_us = COUNT()
    communication_total_us = COUNT(help_text="with what computing hides")
    loading_us = COUNT(help_text="waiting for PyTorch's data loader")
    operators = ProfiledOperatorSerializer(many=True)
    hints = serializers.ListField(
        child=serializers.CharField(), help_text="what to look at, in English"
    )


class JobProfileSerializer(serializers.Serializer[Any]):
    attempt = COUNT(allow_null=True, help_text="that wrote the profile; null without one")
    tree = serializers.UUIDField(allow_null=True, help_text="that has the trace")
    profile = TimeProfileSerializer(allow_null=True)
    problem = serializers.CharField(allow_blank=True, help_text="why there is none; else empty")


class JobProfileView(ApiView):
    @extend_schema(operation_id="job_time_profile", responses=JobProfileSerializer)
    def get(self, request: ApiRequest, job: str) -> Response:
        """Where the time of a job with a `profiler` went, in the newest attempt that has ended. The
        whole trace is `tessera-profile/trace.json.gz` of the tree."""
        return Response(profile_data(job_profile(job_visible(request.caller, job))))


def profile_data(result: JobProfile | None) -> dict[str, Any]:
    whole = result or JobProfile()
    problem = whole.problem.text if whole.problem else ""
    return {
        "attempt": whole.attempt or None,
        "tree": str(whole.tree) if whole.tree else None,
        "profile": _time_profile(whole.profile) if whole.profile else None,
        "problem": problem if result else "The job has no profiler",
    }


def _time_profile(profile: TimeProfile) -> dict[str, Any]:
    return {
        **{name: getattr(profile, name) for name in ("rank", "world", "steps", "torch", "device")},
        "by_device": profile.by_device,
        "window_us": profile.window_us,
        **{f"{category}_us": us for category, us in profile.times_us.items()},
        "communication_total_us": profile.communication_total_us,
        "loading_us": profile.loading_us,
        "operators": ProfiledOperatorSerializer(profile.operators, many=True).data,
        "hints": [hint.text for hint in profile.hints],
    }
