"""The Usage page: GPU-hours of a period, devices in use now, quotas, and budgets with a forecast.

The URL holds the period and the scope.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime

from asgiref.sync import sync_to_async
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.views import redirect_to_login
from django.db import connection
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from portal.accounts.models import User
from portal.availability.promises import current_promises
from portal.errors import Refused
from portal.idle.selectors import reclaimed_unit_seconds
from portal.quotas.figures import quota_figures
from portal.quotas.models import Quota
from portal.usage.budgets import budget_statuses, visible_limits, visible_quota_rows
from portal.usage.current import MAX_ROWS, allocated_totals, current_allocations, recent_utilisation
from portal.usage.export import csv_chunks_async
from portal.usage.ledger import UsageWindow, unit_seconds_between
from portal.usage.rounding import format_gpu_hours, percent
from portal.usage.selectors import (
    ALL,
    IN,
    ME,
    UsageEntry,
    UsageReport,
    UsageScope,
    VisibleProjects,
    usage_report,
    usage_scope,
    visible_projects,
)
from portal.usage.window import RequestedDays, bar_edges, midnight, parse_days, usage_window
from portal.web.http import AuthenticatedHttpRequest
from portal.web.project_choice import follows_project_choice, project_choice
from portal.web.usage.bars import usage_bars
from portal.web.usage.labels import (
    ERRORS,
    KINDS,
    PERIODS,
    QuotaSummary,
    budget_summary,
    headline,
    held_device,
    period_sentence,
    quota_summary,
)
from portal.web.wording.labels import NBSP

# Lines shown in a table; the CSV file has them all.
MAX_TABLE_LINES = 50


@dataclass(frozen=True, slots=True)
class UsageLine:
    """A line of a table."""

    names: tuple[str, ...]
    # Unit-seconds.
    used: int
    hours: str
    # Share of the total.
    percent: int


@dataclass(frozen=True, slots=True)
class UsageTable:
    """Usage grouped by project, user or device."""

    id: str
    title: str
    columns: tuple[str, ...]
    lines: tuple[UsageLine, ...]
    # Number of lines that are only in the CSV file.
    hidden_lines: int


@login_required
@follows_project_choice
def usage_page(request: AuthenticatedHttpRequest) -> HttpResponse:
    user, now = request.user, timezone.now()
    projects = visible_projects(user, project_choice(request).memberships)
    scope = _scope(projects, request.GET.get("of", ME))
    requested = parse_days(request.GET, timezone.localtime(now).date())
    limits = visible_limits(user, scope)
    used = _used(projects, scope, requested.days, now) if requested.days else {}
    context = {
        "scope": scope,
        "scopes": _scope_choices(projects),
        "requested": requested,
        "periods": [(key, label, _query(scope, key)) for key, label in PERIODS.items()],
        "errors": {name: ERRORS[code] for name, code in requested.errors.items()},
        "budgets": [budget_summary(line) for line in budget_statuses(limits, now)],
        "quotas": _quotas(visible_quota_rows(limits)),
        **_allocated(scope, now),
        **(used or {"headline": _("Choose other days")}),
    }
    status = 400 if requested.errors else 200
    return render(request, "web/usage/usage.html", context, status=status)


def _quotas(rows: list[Quota]) -> list[QuotaSummary]:
    """What is held and promised of each. One or two queries more, none without quotas."""
    promises = current_promises({row.project.slug for row in rows}) if rows else []
    return [quota_summary(row, quota_figures(row, promises)) for row in rows]


async def usage_csv(request: HttpRequest) -> HttpResponseBase:
    """The allocations behind the page's figures, as CSV."""
    user = await request.auser()
    if isinstance(user, AnonymousUser):
        return redirect_to_login(request.get_full_path())
    try:
        scope, requested = await sync_to_async(_read, thread_sensitive=False)(user, request)
    except Refused as refused:
        raise Http404 from refused
    if requested.days is None:
        return HttpResponse(_("Choose other days"), status=400, content_type="text/plain")
    first, last = requested.days
    window = usage_window((first, last), timezone.now())
    response = StreamingHttpResponse(
        csv_chunks_async(scope.rows, window, timezone.get_current_timezone()),
        content_type="text/csv; charset=utf-8",
    )
    response["Content-Disposition"] = f'attachment; filename="usage-{first}-to-{last}.csv"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _read(user: User, request: HttpRequest) -> tuple[UsageScope, RequestedDays]:
    try:
        today = timezone.localtime().date()
        return usage_scope(visible_projects(user), request.GET.get("of", ME)), parse_days(
            request.GET, today
        )
    finally:
        connection.close()


def _scope(projects: VisibleProjects, name: str) -> UsageScope:
    try:
        return usage_scope(projects, name)
    except Refused as refused:
        raise Http404 from refused


def _scope_choices(visible: VisibleProjects) -> list[tuple[str, str]]:
    """Value and label of each scope that the user may choose."""
    choices = [(ME, _("My own")), *((f"{IN}{slug}", slug) for slug in visible.projects)]
    return choices + ([(ALL, _("All projects"))] if visible.user.is_platform_admin else [])


def _query(scope: UsageScope, period: str) -> str:
    return urlencode({"of": scope.name, "period": period})


def _allocated(scope: UsageScope, now: datetime) -> dict[str, object]:
    """What is allocated now, and which of it seems idle."""
    allocations = current_allocations(scope.rows, now)
    rows = [held_device(row) for row in allocations]
    units, slices = allocated_totals(scope.rows, allocations)
    measured, percent_used = recent_utilisation(allocations)
    return {
        "measured_units": measured,
        "percent_used": f"{percent_used}{NBSP}%",
        "held": rows,
        "idle": [row for row in rows if row.holding.is_idle],
        "held_units": units,
        "held_slices": slices,
        "hidden_slices": max(0, slices - MAX_ROWS),
    }


def _reclaimed(scope: UsageScope, window: UsageWindow) -> dict[str, object]:
    """What idle jobs gave back when they were stopped, of a project or of all. One query then."""
    if scope.name == ME:
        return {}
    projects = [scope.project.pk] if scope.project else None
    units, count = reclaimed_unit_seconds(projects, window.start, window.end)
    return {"reclaimed_hours": format_gpu_hours(units), "reclaimed_jobs": count}


def _used(
    visible: VisibleProjects, scope: UsageScope, days: tuple[date, date], now: datetime
) -> dict[str, object]:
    today = timezone.localtime(now).date()
    window = usage_window(days, now)
    report = usage_report(scope.rows, window, visible.projects.values())
    edges = bar_edges(days, today)
    bar_values = unit_seconds_between(scope.rows, [midnight(day) for day in edges], now)
    return {
        "headline": headline(scope, report.unit_seconds),
        "period": period_sentence(days, now),
        "used": report.unit_seconds,
        "hours": format_gpu_hours(report.unit_seconds),
        "tables": [_table(report, *column) for column in _columns(scope)],
        "bars": usage_bars(edges, bar_values),
        **_reclaimed(scope, window),
        "file": urlencode({"of": scope.name, "from": str(days[0]), "until": str(days[1])}),
    }


Key = Callable[[UsageEntry], tuple[str, ...]]


def _columns(scope: UsageScope) -> list[tuple[str, str, tuple[str, ...], Key]]:
    """The tables of a scope: id, title, columns and the key that groups the entries."""
    kinds = {kind: str(label) for kind, label in KINDS.items()}
    project = ("project", _("By project"), (_("Project"),), lambda e: (e.project,))
    user = ("user", _("By user"), (_("User"),), lambda e: (e.user,))
    device = (
        "device",
        _("By model and kind"),
        (_("Model"), _("Kind")),
        lambda e: (e.model, kinds.get(e.kind, e.kind)),
    )
    if scope.name == ALL:
        return [project, user, device]
    return [user, device] if scope.project else [project, device]


def _table(
    report: UsageReport, name: str, title: str, columns: tuple[str, ...], key: Key
) -> UsageTable:
    sums = report.grouped(key)
    lines = (
        UsageLine(names, used, format_gpu_hours(used), percent(used, report.unit_seconds))
        for names, used in sums[:MAX_TABLE_LINES]
    )
    return UsageTable(name, title, columns, tuple(lines), len(sums[MAX_TABLE_LINES:]))
