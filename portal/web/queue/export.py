"""The queue as CSV, streamed page by page: what the reader may see of each waiting job."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.http.response import HttpResponseBase, StreamingHttpResponse
from django.urls import reverse
from django.utils import timezone

from portal.accounts.models import User
from portal.accounts.selectors import memberships_of
from portal.csv_text import csv_lines
from portal.event_stream import release_connection, shared_read
from portal.jobs.paging import page_of
from portal.planning.order_factors import order_factors
from portal.planning.queue_selectors import SORTING, queue_in_order
from portal.quotas.policy import current_policy
from portal.web.jobs.export import ROWS_AT_ONCE
from portal.web.queue.filter_form import QueueFilterForm
from portal.web.queue.rows import QueueRow, queue_row, queue_viewer
from portal.web.wording.labels import device_label, gpu_hours

COLUMNS = (
    *("position", "job", "name", "owner", "project", "status", "reason", "why"),
    *("expected_start", "reserved_from", "device", "gpu_hours_at_most", "time_limit_seconds"),
    *("priority", "bypassed", "preempted", "waiting_since"),
)


@dataclass(frozen=True, slots=True)
class QueueCsvPage:
    """Encoded lines, and the cursor behind them; or what is wrong with the filters."""

    lines: str
    after: str = ""
    error: str = ""


async def queue_csv(request: HttpRequest) -> HttpResponseBase:
    user = await request.auser()
    await release_connection()
    if isinstance(user, AnonymousUser):
        return HttpResponseRedirect(f"{reverse('web:sign_in')}?next={reverse('web:queue')}")
    # The lines are made after the response has begun, still on the reader's clock.
    zone = timezone.get_current_timezone()
    first = await shared_read(_read, user, request.GET, "", zone)
    if first.error:
        return HttpResponse(first.error, status=400, content_type="text/plain; charset=utf-8")
    lines = _lines(user, request.GET, first, zone)
    response = StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8")
    name = f"queue-{timezone.localdate():%Y-%m-%d}.csv"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Cache-Control"] = "no-store"
    response["X-Content-Type-Options"] = "nosniff"
    return response


async def _lines(
    user: User, query: QueryDict, page: QueueCsvPage, zone: tzinfo
) -> AsyncIterator[str]:
    """No database connection is held between two pages."""
    # The byte order mark makes spreadsheets read UTF-8.
    yield "\ufeff" + csv_lines([COLUMNS])
    yield page.lines
    while page.after:
        page = await shared_read(_read, user, query, page.after, zone)
        yield page.lines


def _read(user: User, query: QueryDict, after: str, zone: tzinfo) -> QueueCsvPage:
    memberships = memberships_of(user)
    filters = QueueFilterForm(query, user, memberships)
    if filters.errors:
        errors = (f"{name}: {' '.join(map(str, told))}" for name, told in filters.errors.items())
        return QueueCsvPage("", error="\n".join(errors))
    page = page_of(filters.filtered(queue_in_order()), SORTING, after=after, size=ROWS_AT_ONCE)
    viewer = queue_viewer(user, memberships, names=settings.PLATFORM.queue_names)
    policy = current_policy()
    factors = order_factors(page.rows, policy, timezone.now())
    rows = (queue_row(job, viewer, policy.bypass_limit) for job in page.rows)
    with timezone.override(zone):
        lines = csv_lines(_cells(row, factors[row.job.pk].work_unit_seconds) for row in rows)
    return QueueCsvPage(lines, page.after)


def _cells(row: QueueRow, work_unit_seconds: int) -> list[Any]:
    job, reason = row.job, row.job.reason or {}
    names = [job.label, job.name, job.owner.username, job.project.slug]
    return [
        job.position or "",
        *(names if row.shows_names else ["", "", "", ""]),
        *(job.status, reason.get("code", "")),
        *(reason.get("sentence", "") if row.shows_names else "",),
        *(_iso(row.expected.range_at if row.expected else None), _iso(job.reserved_at)),
        *(device_label(job), gpu_hours(work_unit_seconds), job.time_limit_seconds),
        *(job.priority, job.bypassed, job.preempted),
        _iso(job.queued_at or job.submitted_at),
    ]


def _iso(moment: datetime | None) -> str:
    return timezone.localtime(moment).isoformat(timespec="seconds") if moment else ""
