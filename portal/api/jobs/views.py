"""REST views of jobs: list, submit, show, logs and events. Actions are in `action_views`."""

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle

from portal.api.jobs.dry_run_serializers import DryRunSerializer, warnings_data
from portal.api.jobs.examples import DRY_RUN_EXAMPLE, SUBMIT_EXAMPLES
from portal.api.jobs.filters import JobListQuerySerializer, JobPagination, filtered_jobs
from portal.api.jobs.long_poll import wait_for_event
from portal.api.jobs.request_serializers import (
    DryRunQuerySerializer,
    EventQuerySerializer,
    LogQuerySerializer,
    WaitQuerySerializer,
)
from portal.api.jobs.responses import created_response, job_data, serializer_context
from portal.api.jobs.serializers import (
    EventSerializer,
    JobSerializer,
    JobSummarySerializer,
)
from portal.api.jobs.submit_answer import SubmittedJobSerializer
from portal.api.jobs.submit_serializer import JobSubmitRequestSerializer
from portal.api.protocol.idempotency import IDEMPOTENCY_KEY, idempotent
from portal.api.protocol.openapi import LOCATION, list_response
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.throttling import SubmitThrottle
from portal.api.protocol.views import ApiView
from portal.arrays.selectors import member_counts
from portal.audit.selectors import job_events
from portal.job_logs.storage import read_log
from portal.jobs.models import Job
from portal.jobs.selectors import job_visible, replica_of
from portal.submission.arrays import request_submit
from portal.submission.dry_run import dry_run
from portal.submission.limits import request_limits
from scheduler.core.model.states import JOB_FINAL, JobStatus
from scheduler.core.request import parse_request
from scheduler.core.request.warnings import request_warnings

MAX_EVENTS = 200


class JobList(ApiView, GenericAPIView[Job]):
    pagination_class = JobPagination
    serializer_class = JobSummarySerializer

    def get_throttles(self) -> list[BaseThrottle]:
        throttles: list[BaseThrottle] = super().get_throttles()
        return [*throttles, SubmitThrottle()] if self.request.method == "POST" else throttles

    @extend_schema(
        operation_id="job_list",
        parameters=[JobListQuerySerializer],
        responses=JobSummarySerializer(many=True),
    )
    def get(self, request: ApiRequest) -> Response:
        """The jobs of your projects; all of them for a platform admin."""
        page = self.paginate_queryset(filtered_jobs(request.caller, request.query_params)) or []
        context = serializer_context(request, page)
        if not request.query_params.get("array"):
            arrays = {job.array_id for job in page if job.is_array_row and job.array_id}
            context["members"] = member_counts(arrays)
        data = JobSummarySerializer(page, many=True, context=context).data
        return self.get_paginated_response(data)

    @extend_schema(
        operation_id="job_submit",
        parameters=[DryRunQuerySerializer, IDEMPOTENCY_KEY, LOCATION],
        request=JobSubmitRequestSerializer,
        responses={
            201: SubmittedJobSerializer,
            200: OpenApiResponse(DryRunSerializer, "Only with dry_run"),
        },
        examples=[*SUBMIT_EXAMPLES, DRY_RUN_EXAMPLE],
    )
    @idempotent
    def post(self, request: ApiRequest) -> Response:
        """Submit a job, or with `array` or `sweep` an array: then the response is its first member,
        and `array` there names it. On a full cluster it is queued, never refused."""
        job_request = parse_request(request.data, request_limits())
        if request.validated_query(DryRunQuerySerializer)["dry_run"]:
            result = dry_run(user=request.caller, request=job_request)
            return Response(DryRunSerializer(result).data)
        job = request_submit(user=request.caller, request=job_request)
        answer = created_response(request, job)
        answer.data["warnings"] = warnings_data(request_warnings(job_request))
        return answer


class JobDetail(ApiView):
    @extend_schema(
        operation_id="job_show", parameters=[WaitQuerySerializer], responses=JobSerializer
    )
    def get(self, request: ApiRequest, job: str) -> Response:
        """One job. With `wait`: as soon as it has an event after `since`, or when time is up."""
        query = request.validated_query(WaitQuerySerializer)
        row = job_visible(request.caller, job)
        if query["wait"] and JobStatus(row.status) not in JOB_FINAL:
            wait_for_event(row, query.get("since"), query["wait"])
            # The caller's rights may have changed during the wait.
            row = job_visible(request.caller, job)
        return Response(job_data(request, row))


class JobLogs(ApiView):
    @extend_schema(
        operation_id="job_logs",
        parameters=[LogQuerySerializer],
        responses={
            (200, "text/plain"): OpenApiResponse(
                OpenApiTypes.STR,
                "X-Next-Offset is where to continue, X-Log-Bytes the size of the log",
            )
        },
    )
    def get(self, request: ApiRequest, job: str) -> HttpResponse:
        """A part of the log of one replica, as it was written."""
        query = request.validated_query(LogQuerySerializer)
        row = job_visible(request.caller, job)
        replica = replica_of(row, attempt=query.get("attempt"), rank=query["rank"])
        data = read_log(replica, query["offset"], query["limit"])
        headers = {
            "X-Content-Type-Options": "nosniff",
            "X-Next-Offset": str(query["offset"] + len(data)),
            "X-Log-Bytes": str(replica.log_bytes),
            "Cache-Control": "no-store",
        }
        return HttpResponse(data, content_type="text/plain; charset=utf-8", headers=headers)


class JobEvents(ApiView):
    @extend_schema(
        operation_id="job_events",
        parameters=[EventQuerySerializer],
        responses=list_response(EventSerializer, next_since=serializers.IntegerField()),
    )
    def get(self, request: ApiRequest, job: str) -> Response:
        """The events of a job, oldest first, at most 200 after `since`."""
        since = request.validated_query(EventQuerySerializer)["since"]
        rows = list(job_events(job_visible(request.caller, job), since=since)[:MAX_EVENTS])
        last = rows[-1].pk if rows else since
        return Response({"results": EventSerializer(rows, many=True).data, "next_since": last})

    service_roles = {"POST": "member of the project"}
