"""Jobs over REST: list, submit, show, logs and history. What one does with them is in
job_actions."""

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from portal.api.jobs.dry_run import DRY_RUN_EXAMPLE, DryRunShape, dry_run_told
from portal.api.jobs.examples import SUBMIT_EXAMPLES
from portal.api.jobs.filters import JobPages, OrderedJobQuery, found
from portal.api.jobs.long_poll import wait_for_event
from portal.api.jobs.queries import DryRunQuery, EventQuery, LogQuery, WaitQuery
from portal.api.jobs.responses import LOCATION, asked, context, created, limits, whole
from portal.api.jobs.serializers import EventShape, JobRequestBody, JobRow, JobWhole
from portal.api.protocol.authentication import SubmitThrottle, caller
from portal.api.protocol.idempotency import KEY, idempotency_key, once
from portal.api.protocol.openapi import listing
from portal.audit.selectors import events_of
from portal.job_logs.storage import read_log
from portal.jobs.models import Job
from portal.jobs.selectors import job_visible, replica_of
from portal.submission.dry_run import foresee
from portal.submission.services import job_submit
from scheduler.core.model.states import JOB_FINAL, JobStatus
from scheduler.core.request import parse_request

MAX_EVENTS = 200


class JobList(GenericAPIView[Job]):
    pagination_class = JobPages
    serializer_class = JobRow

    def get_throttles(self) -> list[BaseThrottle]:
        more: list[BaseThrottle] = [SubmitThrottle()] if self.request.method == "POST" else []
        return super().get_throttles() + more

    @extend_schema(
        operation_id="job_list", parameters=[OrderedJobQuery], responses=JobRow(many=True)
    )
    def get(self, request: Request) -> Response:
        page = self.paginate_queryset(found(caller(request), request.query_params)) or []
        shape = JobRow(page, many=True, context=context(request, page))
        return self.get_paginated_response(shape.data)

    @extend_schema(
        operation_id="job_submit",
        parameters=[DryRunQuery, KEY, LOCATION],
        request=JobRequestBody,
        responses={201: JobWhole, 200: OpenApiResponse(DryRunShape, "only with dry_run")},
        examples=[*SUBMIT_EXAMPLES, DRY_RUN_EXAMPLE],
    )
    @once
    def post(self, request: Request) -> Response:
        """Ask for a job. A full cluster never refuses: it queues."""
        wanted = parse_request(request.data, limits())
        if asked(DryRunQuery, request.query_params)["dry_run"]:
            return Response(dry_run_told(foresee(user=caller(request), request=wanted)))
        key = idempotency_key(request)
        return created(
            request, job_submit(user=caller(request), request=wanted, idempotency_key=key)
        )


class JobOne(APIView):
    @extend_schema(operation_id="job_show", parameters=[WaitQuery], responses=JobWhole)
    def get(self, request: Request, job: str) -> Response:
        """One job; with `wait`, as soon as it has an event after `since`, or when time is up."""
        query = asked(WaitQuery, request.query_params)
        row = job_visible(caller(request), job)
        if query["wait"] and JobStatus(row.status) not in JOB_FINAL:
            wait_for_event(row, query.get("since"), query["wait"])
            # Rights may have changed meanwhile: look again as the caller.
            row = job_visible(caller(request), job)
        return Response(whole(request, row))


class JobLogs(APIView):
    @extend_schema(
        operation_id="job_logs",
        parameters=[LogQuery],
        responses={
            (200, "text/plain"): OpenApiResponse(
                OpenApiTypes.STR, "X-Next-Offset says where to go on, X-Log-Bytes how much there is"
            )
        },
    )
    def get(self, request: Request, job: str) -> HttpResponse:
        query = asked(LogQuery, request.query_params)
        row = job_visible(caller(request), job)
        replica = replica_of(row, attempt=query.get("attempt"), rank=query["rank"])
        data = read_log(replica, query["offset"], query["limit"])
        headers = {
            "X-Content-Type-Options": "nosniff",
            "X-Next-Offset": str(query["offset"] + len(data)),
            "X-Log-Bytes": str(replica.log_bytes),
            "Cache-Control": "no-store",
        }
        return HttpResponse(data, content_type="text/plain; charset=utf-8", headers=headers)


class JobEvents(APIView):
    @extend_schema(
        operation_id="job_events",
        parameters=[EventQuery],
        responses=listing(EventShape, next_since=serializers.IntegerField()),
    )
    def get(self, request: Request, job: str) -> Response:
        since = asked(EventQuery, request.query_params)["since"]
        rows = list(events_of(job_visible(caller(request), job), since=since)[:MAX_EVENTS])
        last = rows[-1].pk if rows else since
        return Response({"results": EventShape(rows, many=True).data, "next_since": last})
