"""REST views of arrays. Their members are jobs: `GET /jobs?array=A-5`."""

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from portal.accounts.models import TokenScope
from portal.api.arrays.serializers import ArrayRefuseRequestSerializer, ArraySerializer
from portal.api.protocol.idempotency import IDEMPOTENCY_KEY, idempotent
from portal.api.protocol.permissions import IsProjectAdmin
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.throttling import SubmitThrottle
from portal.api.protocol.views import ApiView
from portal.arrays.models import JobArray
from portal.arrays.selectors import array_visible, member_counts
from portal.arrays.services import array_approve, array_cancel, array_refuse
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.jobs.selectors import may_cancel_work, readable_fields
from portal.submission.arrays import array_retry
from portal.submission.limits import request_limits

OWNER_OR_ADMIN = "owner of the array or admin of its project"
PROJECT_ADMIN = IsProjectAdmin.role


class ArrayDetail(ApiView):
    @extend_schema(operation_id="array_show", responses=ArraySerializer)
    def get(self, request: ApiRequest, array: str) -> Response:
        """One array, with its members counted by state. `GET /jobs?array=A-5` lists them."""
        return _response(request, array_visible(request.caller, array))


class ArrayCancel(ApiView):
    service_roles = {"POST": OWNER_OR_ADMIN}

    @extend_schema(operation_id="array_cancel", request=None, responses=ArraySerializer)
    def post(self, request: ApiRequest, array: str) -> Response:
        """Cancel all members that have not ended. Repeatable."""
        row, user = array_visible(request.caller, array), request.caller
        if not may_cancel_work(user, owner=row.owner_id, project=row.project_id):
            sentence = "Only its owner or a project admin may cancel an array"
            raise Refused(ErrorCode.FORBIDDEN, sentence)
        array_cancel(array=row, actor=user.username)
        return _response(request, row)


class ArrayApprove(ApiView):
    service_roles = {"POST": PROJECT_ADMIN}
    scopes = {"POST": TokenScope.ADMIN}

    @extend_schema(operation_id="array_approve", request=None, responses=ArraySerializer)
    def post(self, request: ApiRequest, array: str) -> Response:
        """Let all members that need an approval into the queue."""
        row = array_visible(request.caller, array)
        array_approve(array=row, actor=request.caller)
        return _response(request, row)


class ArrayRefuse(ApiView):
    service_roles = {"POST": PROJECT_ADMIN}
    scopes = {"POST": TokenScope.ADMIN}

    @extend_schema(
        operation_id="array_refuse", request=ArrayRefuseRequestSerializer, responses=ArraySerializer
    )
    def post(self, request: ApiRequest, array: str) -> Response:
        """End all members that need an approval."""
        row = array_visible(request.caller, array)
        reason = request.validated_data(ArrayRefuseRequestSerializer)["because"]
        array_refuse(array=row, actor=request.caller, reason=reason)
        return _response(request, row)


class ArrayRetry(ApiView):
    service_roles = {"POST": OWNER_OR_ADMIN}
    throttle_classes = (SubmitThrottle,)

    @extend_schema(
        operation_id="array_retry",
        parameters=[IDEMPOTENCY_KEY],
        request=None,
        responses=ArraySerializer,
    )
    @idempotent
    def post(self, request: ApiRequest, array: str) -> Response:
        """Run the members that failed or were cancelled once more, as new jobs at their indices."""
        row = array_visible(request.caller, array)
        array_retry(array=row, actor=request.caller, limits=request_limits())
        return _response(request, row)


def _response(request: ApiRequest, array: JobArray) -> Response:
    fields = readable_fields(
        request.caller, array.request, owner=array.owner_id, project=array.project_id
    )
    context = {"counts": member_counts([array.pk])[array.pk], "request_fields": fields}
    return Response(ArraySerializer(array, context=context).data)
