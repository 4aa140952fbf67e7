"""The audit trail: searched, filtered, and streamed as CSV."""

import csv
import json
from collections.abc import Iterator
from datetime import datetime, time, tzinfo
from typing import Any

from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.translation import gettext as _

from portal.accounts.models import Project
from portal.audit.models import AuditEntry
from portal.audit.selectors import audit_trail
from portal.web.console.access import platform_admins_only
from portal.web.console.history import audit_lines

COLUMNS = (
    *("at", "actor", "action", "noun", "noun_id", "project", "before", "after"),
    *("address", "request_id", "occurrences"),
)
# A spreadsheet reads a cell that starts with one of these as a formula.
FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n")
PAGE_SIZE = 50


@platform_admins_only
def audit(request: HttpRequest) -> HttpResponse:
    rows, filters, errors = _filtered(request)
    page = Paginator(rows, PAGE_SIZE).get_page(request.GET.get("page"))
    query = request.GET.copy()
    query.pop("page", None)
    context = {
        "page": page,
        "lines": audit_lines(page.object_list),
        "has_origins": True,
        "filters": filters,
        "errors": errors,
        "query": query.urlencode(),
        "actions": AuditEntry.objects.order_by("action")
        .values_list("action", flat=True)
        .distinct(),
        "projects": Project.objects.values_list("slug", flat=True),
    }
    return render(request, "web/console/audit.html", context)


@platform_admins_only
def audit_csv(request: HttpRequest) -> StreamingHttpResponse:
    rows, _filters, _errors = _filtered(request)
    response = StreamingHttpResponse(
        _csv_lines(rows, timezone.get_current_timezone()), content_type="text/csv; charset=utf-8"
    )
    response["Content-Disposition"] = 'attachment; filename="audit.csv"'
    return response


def spreadsheet_safe(value: str) -> str:
    """A cell that no spreadsheet evaluates."""
    return f"'{value}" if value.startswith(FORMULA_PREFIXES) else value


class _Echo:
    """A file whose `write` returns the text instead of storing it."""

    def write(self, text: str) -> str:
        return text


def _csv_lines(rows: QuerySet[AuditEntry], zone: tzinfo) -> Iterator[str]:
    out = csv.writer(_Echo())
    yield out.writerow(COLUMNS)
    for row in rows.iterator(chunk_size=500):
        yield out.writerow([spreadsheet_safe(cell) for cell in _cells(row, zone)])


def _cells(row: AuditEntry, zone: tzinfo) -> list[str]:
    states = [
        json.dumps(value, ensure_ascii=False) if value else "" for value in (row.before, row.after)
    ]
    project = row.project.slug if row.project else ""
    who = [
        row.at.astimezone(zone).isoformat(),
        row.actor,
        row.action,
        row.noun,
        row.noun_id,
        project,
    ]
    return [*who, *states, row.address, row.request_id, str(row.occurrences)]


def _filtered(request: HttpRequest) -> tuple[QuerySet[AuditEntry], dict[str, str], dict[str, str]]:
    """The rows that match the URL, its filters, and an error for each that cannot be read."""
    names = ("q", "action", "actor", "project", "since", "until")
    asked = {name: request.GET.get(name, "").strip()[:150] for name in names}
    rows, wrong = audit_trail(), {}
    if asked["q"]:
        rows = rows.filter(
            Q(noun_id__icontains=asked["q"])
            | Q(actor__icontains=asked["q"])
            | Q(action__icontains=asked["q"])
            | Q(address__icontains=asked["q"])
            | Q(request_id=asked["q"])
        )
    exact = {"action": "action", "actor": "actor", "project": "project__slug"}
    rows = rows.filter(**{column: asked[name] for name, column in exact.items() if asked[name]})
    for name, suffix, clock in (("since", "gte", time.min), ("until", "lte", time.max)):
        if not asked[name]:
            continue
        try:
            day: Any = parse_date(asked[name])
        except ValueError:
            day = None
        if day is None:
            wrong[name] = _("Enter a date such as 2026-12-01")
        else:
            moment = timezone.make_aware(datetime.combine(day, clock))
            rows = rows.filter(**{f"at__{suffix}": moment})
    return rows, asked, wrong
