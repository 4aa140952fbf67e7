"""REST view of what a job reports: its series, as JSON or as CSV."""

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from portal.advice.job_utilisation import job_utilisation
from portal.api.jobs.utilisation_serializers import ModelUtilisationSerializer, utilisation_data
from portal.api.protocol.openapi import list_response
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.job_metrics.models import MetricSeries
from portal.job_metrics.selectors import points_load, points_of, series_of, skipped_counts
from portal.jobs.selectors import job_visible

MAX_SERIES = 200


class MetricsQuerySerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=64, required=False, help_text="only this metric")
    rank = serializers.IntegerField(
        min_value=0, max_value=1 << 15, required=False, help_text="only of this replica"
    )
    points = serializers.BooleanField(default=True, help_text="false: only the last values")
    csv = serializers.BooleanField(
        default=False, help_text="true: lines of name, rank, step and value"
    )
    after = serializers.IntegerField(
        min_value=0, max_value=1_000_000, default=0, help_text="the `next_after` of the page before"
    )


class MetricSeriesSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    rank = serializers.IntegerField(help_text="of the replica that reported it")
    attempt = serializers.IntegerField(help_text="that reported last")
    count = serializers.IntegerField(help_text="of all points that were reported")
    last = serializers.FloatField(help_text="the value that was reported last")
    last_step = serializers.IntegerField()
    low = serializers.FloatField(help_text="the least value of all points")
    high = serializers.FloatField(help_text="the greatest value of all points")
    points = serializers.SerializerMethodField(help_text="[step, value] by step, at most 401")

    def get_points(self, row: MetricSeries) -> list[list[float]]:
        if not self.context.get("points"):
            return []
        return [[step, value] for step, value in points_of(row)]


class JobMetricsView(ApiView):
    @extend_schema(
        operation_id="job_metrics",
        parameters=[MetricsQuerySerializer],
        responses={
            (200, "application/json"): list_response(
                MetricSeriesSerializer,
                skipped=serializers.DictField(
                    child=serializers.IntegerField(),
                    help_text="lines of its files that were no points, by reason",
                ),
                model_utilisation=ModelUtilisationSerializer(
                    allow_null=True, help_text="null for a job that reports no speed in tokens"
                ),
                next_after=serializers.IntegerField(allow_null=True),
            ),
            (200, "text/csv"): OpenApiResponse(OpenApiTypes.STR, "With `csv`"),
        },
    )
    def get(self, request: ApiRequest, job: str) -> Response | HttpResponse:
        """What the job reports through TESSERA_METRICS_FILE: at most 200 series by name and rank.
        A long series is thinned; count, low and high are of all its points. A training that reports
        its tokens has its model FLOPs utilisation beside what the advisor expects."""
        query = request.validated_query(MetricsQuerySerializer)
        row = job_visible(request.caller, job)
        whole = series_of([row])
        name, rank = query.get("name"), query.get("rank")
        every = [s for s in whole if name in (None, s.name) and rank in (None, s.rank)]
        end = query["after"] + MAX_SERIES
        series = every[query["after"] : end]
        if query["points"] or query["csv"]:
            points_load(series)
        if query["csv"]:
            return _csv(series)
        context = {"points": query["points"]}
        return Response(
            {
                "results": MetricSeriesSerializer(series, many=True, context=context).data,
                "skipped": skipped_counts(row),
                "model_utilisation": utilisation_data(job_utilisation(row, whole)),
                "next_after": end if len(every) > end else None,
            }
        )


def _csv(series: list[MetricSeries]) -> HttpResponse:
    """No cell can begin a formula: names begin with a letter, a digit or _."""
    lines = ["name,rank,step,value"]
    lines += [
        f"{row.name},{row.rank},{step},{value!r}"
        for row in series
        for step, value in points_of(row)
    ]
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    body = "\n".join(lines) + "\n"
    return HttpResponse(body, content_type="text/csv; charset=utf-8", headers=headers)
