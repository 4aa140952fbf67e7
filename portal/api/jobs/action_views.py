"""REST views of what a person does with a job: cancel, extend, retry, replace, hold, approve."""

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from portal.accounts.models import TokenScope
from portal.api.jobs.request_serializers import (
    JobExtendRequestSerializer,
    JobReasonRequestSerializer,
    JobReplaceRequestSerializer,
)
from portal.api.jobs.responses import cancel_refused, created_response, job_response
from portal.api.jobs.serializers import JobSerializer
from portal.api.protocol.idempotency import IDEMPOTENCY_KEY, idempotent
from portal.api.protocol.permissions import IsProjectAdmin
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.throttling import SubmitThrottle
from portal.api.protocol.views import ApiView
from portal.jobs.holds import job_approve, job_hold, job_refuse, job_release
from portal.jobs.models import Job
from portal.jobs.selectors import job_visible, may_cancel
from portal.jobs.services import job_cancel
from portal.submission.extensions import job_extend
from portal.submission.limits import request_limits
from portal.submission.replacement import job_replace
from portal.submission.retries import job_retry

OWNER_OR_ADMIN = "owner of the job or admin of its project"
PROJECT_ADMIN = IsProjectAdmin.role


class JobAction(ApiView):
    """Base of the actions on one job."""

    def job(self, request: ApiRequest, label: str) -> Job:
        """The job. Raises Refused(not_found) where the caller may not see it."""
        return job_visible(request.caller, label)


class JobCancel(JobAction):
    service_roles = {"POST": OWNER_OR_ADMIN}

    @extend_schema(operation_id="job_cancel", request=None, responses=JobSerializer)
    def post(self, request: ApiRequest, job: str) -> Response:
        """Cancel a job: at once while it waits, else once its processes are gone. Repeatable."""
        row, user = self.job(request, job), request.caller
        if not may_cancel(user, row):
            raise cancel_refused()
        return job_response(request, job_cancel(job=row, actor=user.username))


class JobExtend(JobAction):
    service_roles = {"POST": OWNER_OR_ADMIN}

    @extend_schema(
        operation_id="job_extend", request=JobExtendRequestSerializer, responses=JobSerializer
    )
    def post(self, request: ApiRequest, job: str) -> Response:
        """Give a running job more time, within the limits of a submit. What would need an approval,
        an admin of the project extends."""
        row = self.job(request, job)
        seconds = request.validated_data(JobExtendRequestSerializer)["by"]
        max_seconds = request_limits().max_time_limit_seconds
        return job_response(
            request,
            job_extend(job=row, actor=request.caller, seconds=seconds, max_seconds=max_seconds),
        )


class JobRetry(JobAction):
    service_roles = {"POST": OWNER_OR_ADMIN}
    throttle_classes = (SubmitThrottle,)

    @extend_schema(
        operation_id="job_retry",
        parameters=[IDEMPOTENCY_KEY],
        request=None,
        responses={201: JobSerializer},
    )
    @idempotent
    def post(self, request: ApiRequest, job: str) -> Response:
        """Submit the same request as a new job, once this one has ended."""
        row = self.job(request, job)
        new = job_retry(job=row, actor=request.caller, limits=request_limits())
        return created_response(request, new)


class JobHold(JobAction):
    service_roles = {"POST": OWNER_OR_ADMIN}

    @extend_schema(
        operation_id="job_hold", request=JobReasonRequestSerializer, responses=JobSerializer
    )
    def post(self, request: ApiRequest, job: str) -> Response:
        """Keep a waiting job from starting until it is released."""
        row = self.job(request, job)
        reason = request.validated_data(JobReasonRequestSerializer)["because"]
        return job_response(request, job_hold(job=row, actor=request.caller, reason=reason))


class JobRelease(JobAction):
    service_roles = {"POST": OWNER_OR_ADMIN}

    @extend_schema(operation_id="job_release", request=None, responses=JobSerializer)
    def post(self, request: ApiRequest, job: str) -> Response:
        """Release a held job. Only an admin releases what an admin holds."""
        return job_response(request, job_release(job=self.job(request, job), actor=request.caller))


class JobApprove(JobAction):
    service_roles = {"POST": PROJECT_ADMIN}
    scopes = {"POST": TokenScope.ADMIN}

    @extend_schema(operation_id="job_approve", request=None, responses=JobSerializer)
    def post(self, request: ApiRequest, job: str) -> Response:
        """Let a job that needs an approval into the queue."""
        return job_response(request, job_approve(job=self.job(request, job), actor=request.caller))


class JobRefuse(JobAction):
    service_roles = {"POST": PROJECT_ADMIN}
    scopes = {"POST": TokenScope.ADMIN}

    @extend_schema(
        operation_id="job_refuse", request=JobReasonRequestSerializer, responses=JobSerializer
    )
    def post(self, request: ApiRequest, job: str) -> Response:
        """End a job that needs an approval."""
        row = self.job(request, job)
        reason = request.validated_data(JobReasonRequestSerializer)["because"]
        return job_response(request, job_refuse(job=row, actor=request.caller, reason=reason))


class JobReplace(JobAction):
    service_roles = {"POST": "owner of the job"}

    @extend_schema(
        operation_id="job_replace",
        parameters=[IDEMPOTENCY_KEY],
        request=JobReplaceRequestSerializer,
        responses={201: JobSerializer},
    )
    @idempotent
    def post(self, request: ApiRequest, job: str) -> Response:
        """Replace a waiting job by one with a changed request, at its place in the queue."""
        changes = request.validated_data(JobReplaceRequestSerializer)["changes"]
        row = self.job(request, job)
        new = job_replace(job=row, actor=request.caller, changes=changes, limits=request_limits())
        return created_response(request, new)
