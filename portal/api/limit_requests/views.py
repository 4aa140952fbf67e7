"""REST views of requests for higher limits: asked from a waiting job, decided by admins."""

from drf_spectacular.utils import extend_schema
from rest_framework.generics import GenericAPIView
from rest_framework.response import Response

from portal.accounts.models import TokenScope
from portal.api.limit_requests.serializers import (
    LimitAnswerSerializer,
    LimitAskSerializer,
    LimitRequestSerializer,
)
from portal.api.protocol.pagination import OldestFirstPagination
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.jobs.selectors import job_visible
from portal.quotas.limit_requests import limit_requests_to_decide
from portal.quotas.models import LimitRequest
from portal.submission.limit_requests import limit_request_decide, limit_request_make

ADMIN = "admin of the project for a user's quota, else platform admin"


class JobLimitRequest(ApiView):
    service_roles = {"POST": "owner of the job"}

    @extend_schema(
        operation_id="job_limit_request",
        request=LimitAskSerializer,
        responses={201: LimitRequestSerializer},
    )
    def post(self, request: ApiRequest, job: str) -> Response:
        """Ask an admin for a higher limit, so that a waiting job can start. Repeatable: while a
        request is open, it is returned."""
        row = job_visible(request.caller, job)
        note = request.validated_data(LimitAskSerializer)["note"]
        made = limit_request_make(job=row, actor=request.caller, note=note)
        return Response(LimitRequestSerializer(made).data, status=201)


class LimitRequestList(ApiView, GenericAPIView[LimitRequest]):
    pagination_class = OldestFirstPagination
    serializer_class = LimitRequestSerializer

    @extend_schema(operation_id="limit_request_list", responses=LimitRequestSerializer(many=True))
    def get(self, request: ApiRequest) -> Response:
        """The open requests for higher limits that you decide, oldest first; empty for others."""
        page = self.paginate_queryset(limit_requests_to_decide(request.caller)) or []
        return self.get_paginated_response(LimitRequestSerializer(page, many=True).data)


class LimitRequestDecision(ApiView):
    scopes = {"POST": TokenScope.ADMIN}
    service_roles = {"POST": ADMIN}
    is_grant = False

    def decide(self, request: ApiRequest, limit_request: str) -> Response:
        number = int(limit_request) if limit_request.isdecimal() and len(limit_request) < 19 else 0
        answer = request.validated_data(LimitAnswerSerializer)["answer"]
        decided = limit_request_decide(
            request_id=number, actor=request.caller, grant=self.is_grant, answer=answer
        )
        return Response(LimitRequestSerializer(decided).data)


class LimitRequestGrant(LimitRequestDecision):
    is_grant = True

    @extend_schema(
        operation_id="limit_request_grant",
        request=LimitAnswerSerializer,
        responses=LimitRequestSerializer,
    )
    def post(self, request: ApiRequest, limit_request: str) -> Response:
        """Grant a request: the quota is raised to what it asks for."""
        return self.decide(request, limit_request)


class LimitRequestDecline(LimitRequestDecision):
    @extend_schema(
        operation_id="limit_request_decline",
        request=LimitAnswerSerializer,
        responses=LimitRequestSerializer,
    )
    def post(self, request: ApiRequest, limit_request: str) -> Response:
        """Decline a request; the answer is required, and the asker reads it."""
        return self.decide(request, limit_request)
