"""Jobs over REST: submit, list, show, cancel, logs and history."""

from typing import Any

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from portal.accounts.models import Scope
from portal.api.access import SubmitThrottle, caller
from portal.api.job_shapes import (
    DryRunQuery,
    DryRunShape,
    EventQuery,
    EventShape,
    JobQuery,
    JobRequestBody,
    JobRow,
    JobWhole,
    LogQuery,
)
from portal.api.openapi import listing
from portal.api.wire import NewestFirst
from portal.audit.selectors import events_of
from portal.errors import Refused
from portal.jobs.holding import job_approve, job_hold, job_refuse, job_release
from portal.jobs.logs import read_log
from portal.jobs.models import Job
from portal.jobs.reasons import projects_of
from portal.jobs.replacing import job_replace
from portal.jobs.selectors import (
    attempts_of,
    job_visible,
    jobs_visible_to,
    may_cancel,
    replica_of,
    usage_of,
)
from portal.jobs.services import job_cancel, job_check, job_submit
from scheduler.core.request import RequestLimits, parse_request, request_as_dict

MAX_EVENTS = 200
KEY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="1 to 128 printable characters. The same key and body give the same job",
)


class JobList(GenericAPIView[Job]):
    pagination_class = NewestFirst
    serializer_class = JobRow

    def get_throttles(self) -> list[BaseThrottle]:
        return [SubmitThrottle()] if self.request.method == "POST" else []

    @extend_schema(operation_id="job_list", parameters=[JobQuery], responses=JobRow(many=True))
    def get(self, request: Request) -> Response:
        rows = jobs_visible_to(caller(request)).filter(**_filters(request))
        page = self.paginate_queryset(rows) or []
        shape = JobRow(page, many=True, context=_context(request, page))
        return self.get_paginated_response(shape.data)

    @extend_schema(
        operation_id="job_submit",
        parameters=[DryRunQuery, KEY],
        request=JobRequestBody,
        responses={201: JobWhole, 200: OpenApiResponse(DryRunShape, "only with dry_run")},
    )
    def post(self, request: Request) -> Response:
        wanted = parse_request(request.data, limits())
        if _query(DryRunQuery, request)["dry_run"]:
            judged = job_check(user=caller(request), request=wanted)
            body = {
                "possible": judged.never is None,
                "reason": judged.never.as_dict() if judged.never else None,
                "approval": judged.approval.as_dict() if judged.approval else None,
                "request": request_as_dict(wanted),
            }
            return Response(body)
        job = job_submit(user=caller(request), request=wanted, idempotency_key=_key(request))
        whole = _whole(request, job)
        place = {"Location": str(whole["links"]["self"])}
        return Response(whole, status=status.HTTP_201_CREATED, headers=place)


class JobOne(APIView):
    @extend_schema(operation_id="job_show", responses=JobWhole)
    def get(self, request: Request, job: str) -> Response:
        return Response(_whole(request, job_visible(caller(request), job)))


class JobCancel(APIView):
    @extend_schema(operation_id="job_cancel", request=None, responses=JobWhole)
    def post(self, request: Request, job: str) -> Response:
        row = job_visible(caller(request), job)
        if not may_cancel(caller(request), row):
            sentence = "Only its owner or a project admin may cancel a job"
            raise Refused("forbidden", sentence, "", 403)
        job_cancel(job=row, actor=caller(request).username)
        return Response(_whole(request, job_visible(caller(request), job)))


class BecauseBody(serializers.Serializer[Any]):
    because = serializers.CharField(max_length=200)


class JobHold(APIView):
    @extend_schema(operation_id="job_hold", request=BecauseBody, responses=JobWhole)
    def post(self, request: Request, job: str) -> Response:
        row = job_visible(caller(request), job)
        return _done(request, job_hold(job=row, by=caller(request), because=_because(request)))


class JobRelease(APIView):
    @extend_schema(operation_id="job_release", request=None, responses=JobWhole)
    def post(self, request: Request, job: str) -> Response:
        return _done(
            request, job_release(job=job_visible(caller(request), job), by=caller(request))
        )


class JobApprove(APIView):
    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="job_approve", request=None, responses=JobWhole)
    def post(self, request: Request, job: str) -> Response:
        return _done(
            request, job_approve(job=job_visible(caller(request), job), by=caller(request))
        )


class JobRefuse(APIView):
    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="job_refuse", request=BecauseBody, responses=JobWhole)
    def post(self, request: Request, job: str) -> Response:
        row = job_visible(caller(request), job)
        return _done(request, job_refuse(job=row, by=caller(request), because=_because(request)))


class ReplaceBody(serializers.Serializer[Any]):
    changes = serializers.DictField(
        help_text="device, replicas, time_limit, topology or needs, as in a request: such as the "
        "`changes` of an alternative"
    )


class JobReplace(APIView):
    """The same request with some changes takes this waiting job's place in the queue."""

    @extend_schema(operation_id="job_replace", request=ReplaceBody, responses={201: JobWhole})
    def post(self, request: Request, job: str) -> Response:
        body = ReplaceBody(data=request.data)
        body.is_valid(raise_exception=True)
        row, changes = job_visible(caller(request), job), body.validated_data["changes"]
        new = job_replace(job=row, by=caller(request), changes=changes, limits=limits())
        whole = _whole(request, new)
        place = {"Location": str(whole["links"]["self"])}
        return Response(whole, status=status.HTTP_201_CREATED, headers=place)


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
        query = _query(LogQuery, request)
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
        since = _query(EventQuery, request)["since"]
        rows = list(events_of(job_visible(caller(request), job), since=since)[:MAX_EVENTS])
        last = rows[-1].pk if rows else since
        return Response({"results": EventShape(rows, many=True).data, "next_since": last})


def limits() -> RequestLimits:
    """What a request may ask for here."""
    platform = settings.PLATFORM
    return RequestLimits(
        default_time_limit_seconds=platform.default_time_limit_seconds,
        max_time_limit_seconds=platform.max_time_limit_seconds,
        max_replicas=platform.max_replicas,
        image_allow=tuple(p.strip() for p in platform.image_allow.split(",") if p.strip()),
    )


def _context(request: Request, jobs: list[Job]) -> dict[str, Any]:
    return {"usage": usage_of(jobs), "projects": projects_of(caller(request))}


def _whole(request: Request, job: Job) -> Any:
    context = _context(request, [job]) | {"attempts": attempts_of(job)}
    return JobWhole(job, context=context).data


def _done(request: Request, job: Job) -> Response:
    row = Job.objects.select_related("project", "owner").get(pk=job.pk)
    return Response(_whole(request, row))


def _because(request: Request) -> str:
    body = BecauseBody(data=request.data)
    body.is_valid(raise_exception=True)
    return str(body.validated_data["because"])


def _query(shape: type[serializers.Serializer[Any]], request: Request) -> dict[str, Any]:
    query = shape(data=request.query_params)
    query.is_valid(raise_exception=True)
    return dict(query.validated_data)


def _filters(request: Request) -> dict[str, Any]:
    columns = {
        "status": "status__in",
        "project": "project__slug",
        "owner": "owner__username",
        "name": "name__icontains",
    }
    asked = _query(JobQuery, request)
    return {columns[name]: value for name, value in asked.items() if value}


def _key(request: Request) -> str:
    key = request.headers.get("Idempotency-Key", "")
    if len(key) > 128 or not (key.isascii() and key.isprintable()):
        sentence = "An Idempotency-Key has 1 to 128 printable ASCII characters"
        raise Refused("idempotency_key_invalid", sentence, "Idempotency-Key")
    return key
