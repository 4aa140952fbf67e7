"""What the views of jobs share: reading the query and its key, and answering with a whole job."""

from typing import Any

from django.conf import settings
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.jobs.serializers import JobWhole
from portal.api.protocol.authentication import caller
from portal.jobs.models import Job
from portal.jobs.selectors import attempts_of, usage_of
from portal.planning.visible_reasons import projects_of
from scheduler.core.request import RequestLimits

LOCATION = OpenApiParameter(
    "Location",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    response=[201],
    description="Where the new job is",
)


def limits() -> RequestLimits:
    """What a request may ask for here."""
    platform = settings.PLATFORM
    return RequestLimits(
        default_time_limit_seconds=platform.default_time_limit_seconds,
        max_time_limit_seconds=platform.max_time_limit_seconds,
        max_replicas=platform.max_replicas,
        image_allow=tuple(p.strip() for p in platform.image_allow.split(",") if p.strip()),
    )


def context(request: Request, jobs: list[Job]) -> dict[str, Any]:
    """What the shapes of these jobs need, in a fixed number of queries."""
    return {"usage": usage_of(jobs), "projects": projects_of(caller(request))}


def whole(request: Request, job: Job) -> Any:
    """One job with its attempts, as JobWhole has it."""
    return JobWhole(job, context=context(request, [job]) | {"attempts": attempts_of(job)}).data


def done(request: Request, job: Job) -> Response:
    """The job as it is after a change."""
    row = Job.objects.select_related("project", "owner").get(pk=job.pk)
    return Response(whole(request, row))


def created(request: Request, job: Job) -> Response:
    """201, and where the new job is."""
    row = Job.objects.select_related("project", "owner").get(pk=job.pk)
    body = whole(request, row)
    place = {"Location": str(body["links"]["self"])}
    return Response(body, status=status.HTTP_201_CREATED, headers=place)


def asked(shape: type[serializers.Serializer[Any]], data: Any) -> dict[str, Any]:
    """A query or a body as the shape reads it. Raises ValidationError, naming the field."""
    read = shape(data=data)
    read.is_valid(raise_exception=True)
    return dict(read.validated_data)
