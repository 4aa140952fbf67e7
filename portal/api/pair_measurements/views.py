"""REST views of measurements of pairs: for platform admins."""

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.generics import GenericAPIView
from rest_framework.response import Response

from portal.accounts.models import TokenScope
from portal.api.pair_measurements.serializers import (
    PairMeasurementRequestSerializer,
    PairMeasurementSerializer,
)
from portal.api.protocol.idempotency import IDEMPOTENCY_KEY, idempotent
from portal.api.protocol.pagination import NewestFirstPagination
from portal.api.protocol.permissions import IsPlatformAdmin
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.node_pairs.models import PairMeasurement
from portal.node_pairs.selectors import measurements
from portal.node_pairs.services import pair_clear
from portal.submission.limits import request_limits
from portal.submission.pair_measurements import pair_measure


class PairMeasurementClear(ApiView):
    scopes = {"POST": TokenScope.ADMIN}
    permissions = {"POST": (IsPlatformAdmin,)}

    @extend_schema(
        operation_id="pair_clear", request=None, responses={200: PairMeasurementSerializer}
    )
    def post(self, request: ApiRequest, measurement: str) -> Response:
        """Have gangs use a slow or wrong pair again, before it is measured anew."""
        is_id = measurement.isascii() and measurement.isdecimal() and len(measurement) < 19
        row = measurements().filter(pk=int(measurement)).first() if is_id else None
        if row is None:
            raise Refused(ErrorCode.NOT_FOUND, "There is no such measurement")
        pair_clear(measurement=row, actor=request.caller.username)
        return Response(PairMeasurementSerializer(measurements().get(pk=row.pk)).data)


class PairMeasurementList(ApiView, GenericAPIView[PairMeasurement]):
    scopes = {"POST": TokenScope.ADMIN}
    permissions = {"GET": (IsPlatformAdmin,), "POST": (IsPlatformAdmin,)}
    pagination_class = NewestFirstPagination
    serializer_class = PairMeasurementSerializer

    @extend_schema(
        operation_id="pair_measurement_list", responses=PairMeasurementSerializer(many=True)
    )
    def get(self, request: ApiRequest) -> Response:
        """All measurements of the network between two nodes, newest first."""
        page = self.paginate_queryset(measurements()) or []
        return self.get_paginated_response(PairMeasurementSerializer(page, many=True).data)

    @extend_schema(
        operation_id="pair_measure",
        request=PairMeasurementRequestSerializer,
        responses={201: PairMeasurementSerializer},
        parameters=[IDEMPOTENCY_KEY],
    )
    @idempotent
    def post(self, request: ApiRequest) -> Response:
        """Start the job that measures two nodes with nccl-tests. It waits until both are free."""
        body = request.validated_data(PairMeasurementRequestSerializer)
        first, second = body["nodes"]
        row = pair_measure(
            user=request.caller,
            nodes=(first, second),
            project=body["project"],
            image=settings.PLATFORM.nccl_tests_image,
            limits=request_limits(),
            expected_mb_per_second=body["expected_mb_per_second"],
        )
        return Response(PairMeasurementSerializer(row).data, status=status.HTTP_201_CREATED)
