"""Many jobs at once: cancel those of a list, or those that a filter finds."""

from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.api.jobs.actions import not_theirs
from portal.api.jobs.filters import JobQuery, found
from portal.api.jobs.responses import asked
from portal.api.protocol.authentication import caller
from portal.errors import Refused
from portal.jobs.bulk_cancel import MOST_CHOSEN, cancel_right, jobs_named
from portal.jobs.models import Job
from portal.jobs.selectors import not_seen
from portal.submission.services import job_cancel
from scheduler.core.model.states import JOB_FINAL


class BulkCancelBody(serializers.Serializer[Any]):
    """Either the jobs by name, or a filter as of the list: its jobs that are not over yet."""

    ids = serializers.ListField(
        child=serializers.CharField(max_length=24),
        required=False,
        min_length=1,
        max_length=MOST_CHOSEN,
        help_text="such as J-12",
    )
    filter = JobQuery(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("ids" in attrs) == ("filter" in attrs):
            raise serializers.ValidationError({"ids": "Send ids or filter, one of them"})
        if "filter" in attrs and not any(attrs["filter"].values()):
            raise serializers.ValidationError({"filter": "Name at least one field"})
        return attrs


class CancelledShape(serializers.Serializer[Any]):
    """What became of one job: its status now, or the problem with it."""

    id = serializers.CharField()
    status = serializers.CharField(help_text="of the job; empty where it was refused")
    code = serializers.CharField(help_text="of the problem; empty where there is none")
    message = serializers.CharField()


class BulkCancelShape(serializers.Serializer[Any]):
    results = CancelledShape(many=True)
    cancelled = serializers.IntegerField()
    refused = serializers.IntegerField()
    more = serializers.BooleanField(help_text="the filter finds more: send it again")


class JobsCancel(APIView):
    @extend_schema(
        operation_id="jobs_cancel",
        request=BulkCancelBody,
        responses=BulkCancelShape,
        examples=[
            OpenApiExample("some", value={"ids": ["J-12", "J-13"]}, request_only=True),
            OpenApiExample(
                "all that wait in a project",
                value={"filter": {"project": "vision", "status": ["queued"]}},
                request_only=True,
            ),
        ],
    )
    def post(self, request: Request) -> Response:
        """Cancel up to 200 jobs. Each stands alone: one that is refused keeps no other."""
        body = asked(BulkCancelBody, request.data)
        if "ids" in body:
            names, more = list(dict.fromkeys(body["ids"])), False
        else:
            names, more = _found(request, body["filter"])
        user = caller(request)
        right, named = cancel_right(user), jobs_named(user, names)
        results = [_cancelled(name, named[name], right, user.username) for name in names]
        refused = sum(1 for result in results if result["code"])
        answer = {
            "results": results,
            "cancelled": len(results) - refused,
            "refused": refused,
            "more": more,
        }
        return Response(BulkCancelShape(answer).data)


def _found(request: Request, query: dict[str, Any]) -> tuple[list[str], bool]:
    over = [str(status) for status in JOB_FINAL]
    rows = found(caller(request), query).exclude(status__in=over)
    keys = list(rows.values_list("pk", flat=True)[: MOST_CHOSEN + 1])
    names = [Job(pk=key).label for key in keys[:MOST_CHOSEN]]
    return names, len(keys) > MOST_CHOSEN


def _cancelled(
    name: str, job: Job | None, right: Callable[[Job], bool], actor: str
) -> dict[str, str]:
    try:
        if job is None:
            raise not_seen()
        if not right(job):
            raise not_theirs()
        job = job_cancel(job=job, actor=actor)
    except Refused as refused:
        return {"id": name, "status": "", "code": refused.code, "message": refused.sentence}
    return {"id": job.label, "status": job.status, "code": "", "message": ""}
