"""Usage: GPU-hours of a time, by whom and on what; what is held now and what sensors say of it;
quotas, and budgets with their forecast. The window and the scope stand in the address."""

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
from portal.errors import Refused
from portal.usage.budgets import budget_statuses, visible_limits, visible_quota_rows
from portal.usage.current import MAX_ROWS, allocated_totals, current_allocations, recent_utilisation
from portal.usage.export import csv_chunks_async
from portal.usage.ledger import unit_seconds_between
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
from portal.web.usage.bars import usage_bars
from portal.web.usage.labels import (
    ERRORS,
    KINDS,
    PERIODS,
    budget_summary,
    headline,
    held_device,
    period_sentence,
    quota_owner,
)
from portal.web.wording.labels import NBSP

# A table shows so many lines; the file has them all.
MAX_TABLE_LINES = 50


@dataclass(frozen=True, slots=True)
class UsageLine:
    """A line of a table: its names, what it used, and its part of the sum in percent."""

    names: tuple[str, ...]
    used: int
    hours: str
    percent: int


@dataclass(frozen=True, slots=True)
class UsageTable:
    """A table: sums by one thing. `rest`: how many lines it leaves out."""

    id: str
    title: str
    columns: tuple[str, ...]
    lines: tuple[UsageLine, ...]
    rest: int


@login_required
def usage_page(request: AuthenticatedHttpRequest) -> HttpResponse:
    user, now = request.user, timezone.now()
    known = visible_projects(user)
    scope = _scope(known, request.GET.get("of", ME))
    days = parse_days(request.GET, timezone.localtime(now).date())
    concerned = visible_limits(user, scope)
    used = _used(known, scope, days.days, now) if days.days else {}
    context = {
        "scope": scope,
        "scopes": _scopes(known),
        "asked": days,
        "periods": [(key, word, _query(scope, key)) for key, word in PERIODS.items()],
        "errors": {name: ERRORS[why] for name, why in days.errors.items()},
        "budgets": [budget_summary(line) for line in budget_statuses(concerned, now)],
        "quotas": [(row, quota_owner(row)) for row in visible_quota_rows(concerned)],
        **_held(scope, now),
        **(used or {"headline": _("Choose other days")}),
    }
    return render(request, "web/usage.html", context, status=400 if days.errors else 200)


async def usage_csv(request: HttpRequest) -> HttpResponseBase:
    """The allocations behind the page's figures, as CSV."""
    user = await request.auser()
    if isinstance(user, AnonymousUser):
        return redirect_to_login(request.get_full_path())
    try:
        scope, days = await sync_to_async(_file_of, thread_sensitive=False)(user, request)
    except Refused as refused:
        raise Http404 from refused
    if days.days is None:
        return HttpResponse(_("Choose other days"), status=400, content_type="text/plain")
    window = usage_window(days.days, timezone.now())
    answer = StreamingHttpResponse(
        csv_chunks_async(scope.rows, window), content_type="text/csv; charset=utf-8"
    )
    name = f"usage-{days.days[0]}-to-{days.days[1]}.csv"
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer


def _file_of(user: User, request: HttpRequest) -> tuple[UsageScope, RequestedDays]:
    try:
        today = timezone.localtime().date()
        return usage_scope(visible_projects(user), request.GET.get("of", ME)), parse_days(
            request.GET, today
        )
    finally:
        connection.close()


def _scope(known: VisibleProjects, of: str) -> UsageScope:
    try:
        return usage_scope(known, of)
    except Refused as refused:
        raise Http404 from refused


def _scopes(known: VisibleProjects) -> list[tuple[str, str]]:
    """What may be chosen: value and words."""
    found = [(ME, _("My own")), *((f"{IN}{slug}", slug) for slug in known.projects)]
    return found + ([(ALL, _("All projects"))] if known.user.is_platform_admin else [])


def _query(scope: UsageScope, period: str) -> str:
    return urlencode({"of": scope.name, "period": period})


def _held(scope: UsageScope, now: datetime) -> dict[str, object]:
    """What is held now, and who of them seems to do nothing with it."""
    first = current_allocations(scope.rows, now)
    rows = [held_device(row) for row in first]
    units, slices = allocated_totals(scope.rows, first)
    measured, percent_used = recent_utilisation(first)
    return {
        "measured_units": measured,
        "percent_used": f"{percent_used}{NBSP}%",
        "held": rows,
        "idle": [row for row in rows if row.holding.is_idle],
        "held_units": units,
        "held_slices": slices,
        "held_rest": max(0, slices - MAX_ROWS),
    }


def _used(
    known: VisibleProjects, scope: UsageScope, days: tuple[date, date], now: datetime
) -> dict[str, object]:
    local = timezone.localtime(now)
    window = usage_window(days, now)
    found = usage_report(scope.rows, window, known.projects.values())
    edges = bar_edges(days, local.date())
    drawn = unit_seconds_between(scope.rows, [midnight(day) for day in edges], now)
    return {
        "headline": headline(scope, found.unit_seconds),
        "span": period_sentence(days, local.date(), f"{local:%H:%M}"),
        "used": found.unit_seconds,
        "hours": format_gpu_hours(found.unit_seconds),
        "parts": [_part(found, *column) for column in _columns(scope)],
        "bars": usage_bars(edges, drawn),
        "file": urlencode({"of": scope.name, "from": str(days[0]), "until": str(days[1])}),
    }


Key = Callable[[UsageEntry], tuple[str, ...]]


def _columns(scope: UsageScope) -> list[tuple[str, str, tuple[str, ...], Key]]:
    """The tables of a scope: id, title, columns and what each line is of."""
    kinds = {kind: str(word) for kind, word in KINDS.items()}
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


def _part(
    found: UsageReport, key: str, title: str, columns: tuple[str, ...], of: Key
) -> UsageTable:
    sums = found.sums_by(of)
    lines = (
        UsageLine(names, used, format_gpu_hours(used), percent(used, found.unit_seconds))
        for names, used in sums[:MAX_TABLE_LINES]
    )
    return UsageTable(key, title, columns, tuple(lines), len(sums[MAX_TABLE_LINES:]))
