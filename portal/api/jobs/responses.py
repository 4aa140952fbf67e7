"""Responses with a whole job, shared by the views of jobs."""

from typing import Any

from rest_framework import status
from rest_framework.response import Response

from portal.allocations.selectors import attempts_of, usage_of
from portal.api.jobs.serializers import JobSerializer
from portal.api.protocol.requests import ApiRequest
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.jobs.models import Job
from portal.planning.visible_reasons import visible_projects


def serializer_context(request: ApiRequest, jobs: list[Job]) -> dict[str, Any]:
    """The context of the job serializers, in a fixed number of queries."""
    return {"usage": usage_of(jobs), "projects": visible_projects(request.caller)}


def job_data(request: ApiRequest, job: Job) -> Any:
    """One job with its attempts, as JobSerializer renders it."""
    context = serializer_context(request, [job])
    context |= {"attempts": attempts_of(job), "caller": request.caller}
    return JobSerializer(job, context=context).data


def job_response(request: ApiRequest, job: Job) -> Response:
    """The job as it is after a change."""
    row = Job.objects.select_related("project", "owner").get(pk=job.pk)
    return Response(job_data(request, row))


def created_response(request: ApiRequest, job: Job) -> Response:
    """201 with the new job and its address. It has used nothing and has no attempt, and its reason,
    if it awaits approval, names no project: nothing is read."""
    context = {"usage": {}, "projects": frozenset(), "attempts": [], "caller": request.caller}
    context["newest_event"] = job.newest_event
    body = JobSerializer(job, context=context).data
    headers = {"Location": str(body["links"]["self"])}
    return Response(body, status=status.HTTP_201_CREATED, headers=headers)


def cancel_refused() -> Refused:
    """The refusal for a caller who sees a job but may not cancel it."""
    return Refused(ErrorCode.FORBIDDEN, "Only its owner or a project admin may cancel a job")
