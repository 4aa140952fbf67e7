"""REST view of GPU-hours: the figures of the Usage page over any window, to the unit-second."""

from collections.abc import Mapping
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework.response import Response

from portal.allocations.selectors import gpu_hours
from portal.api.protocol.requests import ApiRequest
from portal.api.protocol.views import ApiView
from portal.api.usage.serializers import PARTS, UsageSerializer
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.usage.budgets import BudgetStatus, budget_statuses, visible_limits
from portal.usage.selectors import (
    ME,
    UsageEntry,
    UsageReport,
    usage_report,
    usage_scope,
    visible_projects,
)
from portal.usage.window import parse_window

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


def _query(name: str, description: str) -> OpenApiParameter:
    return OpenApiParameter(name, str, description=description)


class UsageView(ApiView):
    @extend_schema(
        operation_id="usage_show",
        parameters=[
            _query("from", "A day or an RFC 3339 time. Default: the start of this month"),
            _query("to", "A day or a time, exclusive. Default: now. At most 366 days after `from`"),
            _query("of", "`me` (default), `project:<slug>`, or `all` (platform admins)"),
            _query("by", "Comma-separated parts to split by: project, user, model, kind"),
        ],
        responses=UsageSerializer,
        examples=[OpenApiExample("A month of a project", value=EXAMPLE, response_only=True)],
    )
    def get(self, request: ApiRequest) -> Response:
        """GPU-hours in a window, split by project, user, model and kind of device."""
        user, now = request.caller, timezone.now()
        query = request.query_params
        window = parse_window(query, now)
        parts = _parts(query)
        projects = visible_projects(user)
        scope = usage_scope(projects, query.get("of") or ME)
        report = usage_report(scope.rows, window, projects.projects.values())
        body = {
            "from": window.start,
            "to": window.end,
            "counted_until": window.until,
            "of": scope.name,
            "unit_seconds": report.unit_seconds,
            "gpu_hours": str(gpu_hours(report.unit_seconds)),
            "by": parts,
            "results": _rows(report, parts),
            "budgets": [
                _budget(line) for line in budget_statuses(visible_limits(user, scope), now)
            ],
        }
        return Response(UsageSerializer(body).data)


def _parts(query: Mapping[str, str]) -> list[str]:
    """The requested parts, in the order of PARTS; by default all of them."""
    text = query.get("by")
    if text is None:
        return list(PARTS)
    names = {word.strip() for word in text.split(",") if word.strip()}
    if unknown := sorted(names - set(PARTS)):
        sentence = f"{unknown[0][:40]!r} is not one of {', '.join(PARTS)}"
        raise Refused(ErrorCode.INVALID_FIELD, sentence, "by")
    return [part for part in PARTS if part in names]


def _rows(report: UsageReport, parts: list[str]) -> list[dict[str, Any]]:
    def key(entry: UsageEntry) -> tuple[str, ...]:
        return tuple(str(getattr(entry, part)) for part in parts)

    return [
        {
            **dict.fromkeys(PARTS),
            **dict(zip(parts, names, strict=True)),
            "unit_seconds": unit_seconds,
            "gpu_hours": str(gpu_hours(unit_seconds)),
        }
        for names, unit_seconds in report.grouped(key)
    ]


def _budget(line: BudgetStatus) -> dict[str, Any]:
    over = int(line.forecast.measured_over.total_seconds())
    return {
        "project": line.project,
        "user": line.user or None,
        "starts_at": line.starts_at,
        "ends_at": line.ends_at,
        "limit_unit_seconds": line.limit_unit_seconds,
        "used_unit_seconds": line.used_unit_seconds,
        "held_unit_seconds": line.reserved_unit_seconds,
        "forecast_unit_seconds": line.used_by_end,
        "forecast_over_seconds": None if line.used_by_end is None else over,
        "runs_out_at": line.forecast.exhausted_at,
    }
