"""GPU-hours over REST: the same figures as the page, over any window, to the unit-second."""

from collections.abc import Mapping
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.api.protocol.authentication import caller
from portal.errors import Refused
from portal.jobs.selectors import gpu_hours
from portal.usage.budgets import BudgetLine, budget_lines, concerning
from portal.usage.selectors import ME, Entry, Usage, scope_of, seen, usage
from portal.usage.window import moments

PARTS = ("project", "user", "model", "kind")
EXAMPLE = {
    "from": "2026-11-01T00:00:00Z",
    "to": "2026-12-01T00:00:00Z",
    "counted_until": "2026-11-21T14:32:00Z",
    "of": "project:vision",
    "unit_seconds": 806_400_000,
    "gpu_hours": "4.0000",
    "by": ["user", "model"],
    "results": [
        {
            "project": None,
            "user": "alice",
            "model": "H200",
            "kind": None,
            "unit_seconds": 806_400_000,
            "gpu_hours": "4.0000",
        }
    ],
    "budgets": [
        {
            "project": "vision",
            "user": None,
            "starts_at": "2026-11-01T00:00:00Z",
            "ends_at": "2026-12-01T00:00:00Z",
            "limit_unit_seconds": 181_440_000_000,
            "used_unit_seconds": 806_400_000,
            "held_unit_seconds": 0,
            "forecast_unit_seconds": 1_200_000_000,
            "forecast_over_seconds": 604_800,
            "runs_out_at": None,
        }
    ],
}


class UsageRow(serializers.Serializer[Any]):
    """A sum. What it is not split by is null."""

    project = serializers.CharField(allow_null=True)
    user = serializers.CharField(allow_null=True)
    model = serializers.CharField(allow_null=True)
    kind = serializers.CharField(allow_null=True, help_text="gpu, mig or mps")
    unit_seconds = serializers.IntegerField(help_text="56,000 units are one GPU")
    gpu_hours = serializers.CharField(help_text="rounded up to four decimals")


class BudgetRow(serializers.Serializer[Any]):
    """`forecast_unit_seconds`: used when it ends, at the mean pace of the last
    `forecast_over_seconds`; both null with less than a day of use to go by."""

    project = serializers.CharField()
    user = serializers.CharField(allow_null=True)
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    limit_unit_seconds = serializers.IntegerField()
    used_unit_seconds = serializers.IntegerField()
    held_unit_seconds = serializers.IntegerField(help_text="what running work may still use")
    forecast_unit_seconds = serializers.IntegerField(allow_null=True)
    forecast_over_seconds = serializers.IntegerField(allow_null=True)
    runs_out_at = serializers.DateTimeField(allow_null=True)


class UsageShape(serializers.Serializer[Any]):
    """What was used in [from, to); what still runs is counted up to `counted_until`."""

    to = serializers.DateTimeField()
    counted_until = serializers.DateTimeField()
    of = serializers.CharField()
    unit_seconds = serializers.IntegerField()
    gpu_hours = serializers.CharField()
    by = serializers.ListField(child=serializers.ChoiceField(choices=PARTS))
    results = UsageRow(many=True)
    budgets = BudgetRow(many=True)

    def get_fields(self) -> dict[str, Any]:
        """`from` is a word of Python's."""
        return {"from": serializers.DateTimeField(), **super().get_fields()}


def _query(name: str, description: str, **more: Any) -> OpenApiParameter:
    return OpenApiParameter(name, str, description=description, **more)


class UsageOne(APIView):
    @extend_schema(
        operation_id="usage_show",
        parameters=[
            _query("from", "A day or an RFC 3339 time; by default the begin of this month"),
            _query("to", "A day or a time, not included; by default now. At most 366 days later"),
            _query("of", "`me` (default), `project:<slug>`, or `all` for a platform admin"),
            _query("by", "What to split by, with commas: project, user, model, kind"),
        ],
        responses=UsageShape,
        examples=[OpenApiExample("A month of a project", value=EXAMPLE, response_only=True)],
    )
    def get(self, request: Request) -> Response:
        user, now = caller(request), timezone.now()
        query = request.query_params
        window = moments(query, now)
        by = _parts(query)
        known = seen(user)
        scope = scope_of(known, query.get("of") or ME)
        found = usage(scope.rows, window, known.projects.values())
        body = {
            "from": window.start,
            "to": window.end,
            "counted_until": window.until,
            "of": scope.of,
            "unit_seconds": found.used,
            "gpu_hours": str(gpu_hours(found.used)),
            "by": by,
            "results": _rows(found, by),
            "budgets": [_budget(line) for line in budget_lines(concerning(user, scope), now)],
        }
        return Response(UsageShape(body).data)


def _parts(query: Mapping[str, str]) -> list[str]:
    """In the order of PARTS; all of them where nothing is said."""
    text = query.get("by")
    if text is None:
        return list(PARTS)
    wanted = {word.strip() for word in text.split(",") if word.strip()}
    if unknown := sorted(wanted - set(PARTS)):
        sentence = f"{unknown[0][:40]!r} is none of {', '.join(PARTS)}"
        raise Refused("invalid_field", sentence, "by")
    return [part for part in PARTS if part in wanted]


def _rows(found: Usage, by: list[str]) -> list[dict[str, Any]]:
    def key(entry: Entry) -> tuple[str, ...]:
        return tuple(str(getattr(entry, part)) for part in by)

    return [
        {
            **dict.fromkeys(PARTS),
            **dict(zip(by, names, strict=True)),
            "unit_seconds": used,
            "gpu_hours": str(gpu_hours(used)),
        }
        for names, used in found.by(key)
    ]


def _budget(line: BudgetLine) -> dict[str, Any]:
    over = int(line.forecast.over.total_seconds())
    return {
        "project": line.project,
        "user": line.user or None,
        "starts_at": line.starts_at,
        "ends_at": line.ends_at,
        "limit_unit_seconds": line.limit,
        "used_unit_seconds": line.used,
        "held_unit_seconds": line.held,
        "forecast_unit_seconds": line.by_end,
        "forecast_over_seconds": None if line.by_end is None else over,
        "runs_out_at": line.forecast.runs_out,
    }
