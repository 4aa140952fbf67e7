"""What one does with a job over REST: cancel, extend, retry, replace, hold, approve."""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.models import Scope
from portal.api.jobs.responses import asked, created, done, limits
from portal.api.jobs.serializers import JobWhole
from portal.api.protocol.authentication import SubmitThrottle, caller
from portal.api.protocol.idempotency import KEY, idempotency_key, once
from portal.errors import Refused
from portal.jobs.extensions import job_extend
from portal.jobs.holds import job_approve, job_hold, job_refuse, job_release
from portal.jobs.models import Job
from portal.jobs.selectors import job_visible, may_cancel
from portal.submission.replacement import job_replace
from portal.submission.retries import job_retry
from portal.submission.services import job_cancel
from scheduler.core.request.quantities import read_seconds


class BecauseBody(serializers.Serializer[Any]):
    because = serializers.CharField(max_length=200)


class ReplaceBody(serializers.Serializer[Any]):
    changes = serializers.DictField(
        help_text="device, replicas, time_limit, topology or needs, as in a request: such as the "
        "`changes` of an alternative"
    )


@extend_schema_field({"type": "string", "example": "1h30m"})
class DurationField(serializers.Field[int, str, str, Any]):
    """A time with its unit."""

    def to_internal_value(self, data: Any) -> int:
        try:
            return read_seconds(data)
        except ValueError as wrong:
            raise serializers.ValidationError(str(wrong)) from wrong


class ExtendBody(serializers.Serializer[Any]):
    by = DurationField(help_text="how much more time it gets, such as 1h or 90m")


class JobAction(APIView):
    """Base of the actions: on a job that the caller may see."""

    def row(self, request: Request, job: str) -> Job:
        return job_visible(caller(request), job)


class JobCancel(JobAction):
    @extend_schema(operation_id="job_cancel", request=None, responses=JobWhole)
    def post(self, request: Request, job: str) -> Response:
        """End it: at once while it waits, else when its processes are gone. May be repeated."""
        row, user = self.row(request, job), caller(request)
        if not may_cancel(user, row):
            raise not_theirs()
        return done(request, job_cancel(job=row, actor=user.username))


class JobExtend(JobAction):
    @extend_schema(operation_id="job_extend", request=ExtendBody, responses=JobWhole)
    def post(self, request: Request, job: str) -> Response:
        """A running job gets more time, within the limits that a submit has."""
        row, by = self.row(request, job), asked(ExtendBody, request.data)["by"]
        most = limits().max_time_limit_seconds
        return done(request, job_extend(job=row, by=caller(request), seconds=by, most=most))


class JobRetry(JobAction):
    throttle_classes = (SubmitThrottle,)

    @extend_schema(
        operation_id="job_retry", parameters=[KEY], request=None, responses={201: JobWhole}
    )
    @once
    def post(self, request: Request, job: str) -> Response:
        """A new job of the same request, once this one is over."""
        row, key = self.row(request, job), idempotency_key(request)
        new = job_retry(job=row, by=caller(request), limits=limits(), idempotency_key=key)
        return created(request, new)


class JobHold(JobAction):
    @extend_schema(operation_id="job_hold", request=BecauseBody, responses=JobWhole)
    def post(self, request: Request, job: str) -> Response:
        """A waiting job does not start until it is released."""
        row, because = self.row(request, job), asked(BecauseBody, request.data)["because"]
        return done(request, job_hold(job=row, by=caller(request), because=because))


class JobRelease(JobAction):
    @extend_schema(operation_id="job_release", request=None, responses=JobWhole)
    def post(self, request: Request, job: str) -> Response:
        """A held job may start again. What an admin holds, an admin releases."""
        return done(request, job_release(job=self.row(request, job), by=caller(request)))


class JobApprove(JobAction):
    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="job_approve", request=None, responses=JobWhole)
    def post(self, request: Request, job: str) -> Response:
        return done(request, job_approve(job=self.row(request, job), by=caller(request)))


class JobRefuse(JobAction):
    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="job_refuse", request=BecauseBody, responses=JobWhole)
    def post(self, request: Request, job: str) -> Response:
        row, because = self.row(request, job), asked(BecauseBody, request.data)["because"]
        return done(request, job_refuse(job=row, by=caller(request), because=because))


class JobReplace(JobAction):
    """The same request with some changes takes this waiting job's place in the queue."""

    @extend_schema(
        operation_id="job_replace",
        parameters=[KEY],
        request=ReplaceBody,
        responses={201: JobWhole},
    )
    @once
    def post(self, request: Request, job: str) -> Response:
        changes = asked(ReplaceBody, request.data)["changes"]
        row = self.row(request, job)
        new = job_replace(job=row, by=caller(request), changes=changes, limits=limits())
        return created(request, new)


def not_theirs() -> Refused:
    return Refused("forbidden", "Only its owner or a project admin may cancel a job", "", 403)
