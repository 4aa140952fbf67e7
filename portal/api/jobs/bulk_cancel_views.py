"""REST view that cancels many jobs: those of a list, or those that match a filter."""

from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.response import Response

from portal.api.jobs.filters import all_filtered_jobs
from portal.api.jobs.request_serializers import BulkCancelRequestSerializer
from portal.api.jobs.responses import cancel_refused
from portal.api.jobs.serializers import BulkCancelSerializer
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.errors import Refused
from portal.jobs.bulk_cancel import MAX_JOBS, cancel_permission, jobs_by_label
from portal.jobs.models import Job
from portal.jobs.selectors import job_unknown
from portal.jobs.services import job_cancel
from scheduler.core.model.states import JOB_FINAL


class BulkCancel(ApiView):
    @extend_schema(
        operation_id="jobs_cancel",
        request=BulkCancelRequestSerializer,
        responses=BulkCancelSerializer,
        examples=[
            OpenApiExample("some jobs", value={"ids": ["J-12", "J-13"]}, request_only=True),
            OpenApiExample(
                "all queued jobs of a project",
                value={"filter": {"project": "vision", "status": ["queued"]}},
                request_only=True,
            ),
        ],
    )
    def post(self, request: ApiRequest) -> Response:
        """Cancel up to 200 jobs. Each is independent: a refused one does not stop the others."""
        body = request.validated_data(BulkCancelRequestSerializer)
        if "ids" in body:
            labels, more = list(dict.fromkeys(body["ids"])), False
        else:
            labels, more = _matching(request, body["filter"])
        user = request.caller
        may_cancel, jobs = cancel_permission(user), jobs_by_label(user, labels)
        results = [_cancel(label, jobs[label], may_cancel, user.username) for label in labels]
        refused = sum(1 for result in results if result["code"])
        body = {
            "results": results,
            "cancelled": len(results) - refused,
            "refused": refused,
            "more": more,
        }
        return Response(BulkCancelSerializer(body).data)


def _matching(request: ApiRequest, query: dict[str, Any]) -> tuple[list[str], bool]:
    final = [str(status) for status in JOB_FINAL]
    rows = all_filtered_jobs(request.caller, query).exclude(status__in=final)
    keys = list(rows.values_list("pk", flat=True)[: MAX_JOBS + 1])
    labels = [Job(pk=key).label for key in keys[:MAX_JOBS]]
    return labels, len(keys) > MAX_JOBS


def _cancel(
    label: str, job: Job | None, may_cancel: Callable[[Job], bool], actor: str
) -> dict[str, str]:
    try:
        if job is None:
            raise job_unknown()
        if not may_cancel(job):
            raise cancel_refused()
        job = job_cancel(job=job, actor=actor)
    except Refused as refused:
        return {"id": label, "status": "", "code": refused.code, "message": refused.sentence}
    return {"id": job.label, "status": job.status, "code": "", "message": ""}
