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
from portal.usage.budgets import budget_lines, concerning, quota_lines
from portal.usage.current import MOST, holdings, units_held, used_lately
from portal.usage.export import lines_async
from portal.usage.ledger import used_between
from portal.usage.rounding import hours, percent
from portal.usage.selectors import ALL, IN, ME, Entry, Scope, Seen, Usage, scope_of, seen, usage
from portal.usage.window import Asked, asked, midnight, steps, window_of
from portal.web.http import person
from portal.web.usage.bars import bars
from portal.web.usage.labels import (
    ERRORS,
    KINDS,
    PERIODS,
    budget_said,
    headline,
    holding_said,
    quota_whose,
    span,
)
from portal.web.wording.labels import NBSP

# A table shows so many lines; the file has them all.
MOST_LINES = 50


@dataclass(frozen=True, slots=True)
class Share:
    """A line of a table: its names, what it used, and its part of the sum in percent."""

    names: tuple[str, ...]
    used: int
    hours: str
    percent: int


@dataclass(frozen=True, slots=True)
class Part:
    """A table: sums by one thing. `rest`: how many lines it leaves out."""

    id: str
    title: str
    columns: tuple[str, ...]
    lines: tuple[Share, ...]
    rest: int


@login_required
def usage_page(request: HttpRequest) -> HttpResponse:
    user, now = person(request), timezone.now()
    known = seen(user)
    scope = _scope(known, request.GET.get("of", ME))
    days = asked(request.GET, timezone.localtime(now).date())
    concerned = concerning(user, scope)
    used = _used(known, scope, days.days, now) if days.days else {}
    context = {
        "scope": scope,
        "scopes": _scopes(known),
        "asked": days,
        "periods": [(key, word, _query(scope, key)) for key, word in PERIODS.items()],
        "errors": {name: ERRORS[why] for name, why in days.errors.items()},
        "budgets": [budget_said(line) for line in budget_lines(concerned, now)],
        "quotas": [(row, quota_whose(row)) for row in quota_lines(concerned)],
        **_held(scope, now),
        **(used or {"headline": _("Choose other days")}),
    }
    return render(request, "web/usage.html", context, status=400 if days.errors else 200)


async def usage_file(request: HttpRequest) -> HttpResponseBase:
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
    window = window_of(days.days, timezone.now())
    answer = StreamingHttpResponse(
        lines_async(scope.rows, window), content_type="text/csv; charset=utf-8"
    )
    name = f"usage-{days.days[0]}-to-{days.days[1]}.csv"
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer


def _file_of(user: User, request: HttpRequest) -> tuple[Scope, Asked]:
    try:
        today = timezone.localtime().date()
        return scope_of(seen(user), request.GET.get("of", ME)), asked(request.GET, today)
    finally:
        connection.close()


def _scope(known: Seen, of: str) -> Scope:
    try:
        return scope_of(known, of)
    except Refused as refused:
        raise Http404 from refused


def _scopes(known: Seen) -> list[tuple[str, str]]:
    """What may be chosen: value and words."""
    found = [(ME, _("My own")), *((f"{IN}{slug}", slug) for slug in known.projects)]
    return found + ([(ALL, _("All projects"))] if known.user.is_platform_admin else [])


def _query(scope: Scope, period: str) -> str:
    return urlencode({"of": scope.of, "period": period})


def _held(scope: Scope, now: datetime) -> dict[str, object]:
    """What is held now, and who of them seems to do nothing with it."""
    first = holdings(scope.rows, now)
    rows = [holding_said(row) for row in first]
    units, slices = units_held(scope.rows, first)
    measured, percent_used = used_lately(first)
    return {
        "measured_units": measured,
        "percent_used": f"{percent_used}{NBSP}%",
        "held": rows,
        "idle": [row for row in rows if row.holding.is_idle],
        "held_units": units,
        "held_slices": slices,
        "held_rest": max(0, slices - MOST),
    }


def _used(known: Seen, scope: Scope, days: tuple[date, date], now: datetime) -> dict[str, object]:
    local = timezone.localtime(now)
    window = window_of(days, now)
    found = usage(scope.rows, window, known.projects.values())
    edges = steps(days, local.date())
    drawn = used_between(scope.rows, [midnight(day) for day in edges], now)
    return {
        "headline": headline(scope, found.used),
        "span": span(days, local.date(), f"{local:%H:%M}"),
        "used": found.used,
        "hours": hours(found.used),
        "parts": [_part(found, *column) for column in _columns(scope)],
        "bars": bars(edges, drawn),
        "file": urlencode({"of": scope.of, "from": str(days[0]), "until": str(days[1])}),
    }


Key = Callable[[Entry], tuple[str, ...]]


def _columns(scope: Scope) -> list[tuple[str, str, tuple[str, ...], Key]]:
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
    if scope.of == ALL:
        return [project, user, device]
    return [user, device] if scope.project else [project, device]


def _part(found: Usage, key: str, title: str, columns: tuple[str, ...], of: Key) -> Part:
    sums = found.by(of)
    lines = (
        Share(names, used, hours(used), percent(used, found.used))
        for names, used in sums[:MOST_LINES]
    )
    return Part(key, title, columns, tuple(lines), len(sums[MOST_LINES:]))
