"""REST view of what the members of an array report, as JSON or as CSV."""

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from portal.api.protocol.openapi import list_response
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.arrays.selectors import array_visible, members_of
from portal.csv_text import csv_lines
from portal.job_metrics.array_results import member_results, metric_names, results_table

MAX_MEMBERS = 200


class ArrayMetricsQuerySerializer(serializers.Serializer[Any]):
    csv = serializers.BooleanField(
        default=False, help_text="true: all members, with a column for each parameter and metric"
    )
    after = serializers.IntegerField(
        min_value=0, max_value=1_000_000, default=0, help_text="the `next_after` of the page before"
    )


class MetricFiguresSerializer(serializers.Serializer[Any]):
    last = serializers.FloatField(help_text="the value that was reported last")
    low = serializers.FloatField(help_text="the least value of all points")
    high = serializers.FloatField(help_text="the greatest value of all points")


class MemberResultSerializer(serializers.Serializer[Any]):
    index = serializers.IntegerField(source="job.array_index")
    job = serializers.CharField(source="job.label")
    status = serializers.CharField(source="job.status")
    parameters = serializers.DictField(child=serializers.CharField())
    metrics = serializers.DictField(child=MetricFiguresSerializer(), help_text="by name")


class ArrayMetricsView(ApiView):
    @extend_schema(
        operation_id="array_metrics",
        parameters=[ArrayMetricsQuerySerializer],
        responses={
            (200, "application/json"): list_response(
                MemberResultSerializer,
                next_after=serializers.IntegerField(allow_null=True),
            ),
            (200, "text/csv"): OpenApiResponse(OpenApiTypes.STR, "With `csv`"),
        },
    )
    def get(self, request: ApiRequest, array: str) -> Response | HttpResponse:
        """What each member was given and has reported, at most 200 by index. Of a member over
        several replicas, the lowest rank that reports a metric counts."""
        query = request.validated_query(ArrayMetricsQuerySerializer)
        row = array_visible(request.caller, array)
        if query["csv"]:
            headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
            body = csv_lines(results_table(row))
            return HttpResponse(body, content_type="text/csv; charset=utf-8", headers=headers)
        end = query["after"] + MAX_MEMBERS
        jobs = list(members_of(row)[query["after"] : end + 1])
        results = member_results(row, jobs[:MAX_MEMBERS], metric_names(row))
        return Response(
            {
                "results": MemberResultSerializer(results, many=True).data,
                "next_after": end if len(jobs) > MAX_MEMBERS else None,
            }
        )
