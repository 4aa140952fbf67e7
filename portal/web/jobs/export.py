"""The filtered list of jobs as CSV, streamed page by page."""

from collections.abc import AsyncIterator
from datetime import datetime, tzinfo
from functools import partial
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone

from portal.csv_text import csv_lines
from portal.event_stream import release_connection, shared_read
from portal.jobs.filters import JobFilters
from portal.jobs.models import Job
from portal.jobs.paging import Page, page_of
from portal.web.jobs.context import job_filters
from portal.web.wording.labels import device_label
from portal.web.wording.start_estimates import expected_start
from scheduler.core.model.states import JOB_WAITING, JobStatus

ROWS_AT_ONCE = 500
COLUMNS = (
    *("job", "name", "project", "owner", "kind", "status", "reason", "why", "position"),
    *("expected_start", "device", "time_limit_seconds"),
    *("submitted_at", "started_at", "finished_at", "failure_cause", "failure"),
)


async def jobs_csv(request: HttpRequest) -> HttpResponseBase:
    user = await request.auser()
    await release_connection()
    if isinstance(user, AnonymousUser):
        return HttpResponseRedirect(f"{reverse('web:sign_in')}?next={reverse('web:jobs')}")
    filters = job_filters(user, request.GET)
    if filters.errors:
        lines = (f"{name}: {' '.join(errors)}" for name, errors in filters.errors.items())
        return HttpResponse("\n".join(lines), status=400, content_type="text/plain; charset=utf-8")
    response = StreamingHttpResponse(
        _lines(filters, timezone.get_current_timezone()), content_type="text/csv; charset=utf-8"
    )
    name = f"jobs-{timezone.localdate():%Y-%m-%d}.csv"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Cache-Control"] = "no-store"
    response["X-Content-Type-Options"] = "nosniff"
    return response


async def _lines(filters: JobFilters, zone: tzinfo) -> AsyncIterator[str]:
    """No database connection is held between two pages."""
    # The byte order mark makes spreadsheets read UTF-8.
    yield "\ufeff" + csv_lines([COLUMNS])
    page = await shared_read(_read, filters, "")
    while page.rows:
        yield csv_lines(map(partial(csv_cells, zone=zone), page.rows))
        if not page.after:
            return
        page = await shared_read(_read, filters, page.after)


def _read(filters: JobFilters, after: str) -> Page:
    return page_of(filters.matching, filters.sorting, after=after, size=ROWS_AT_ONCE)


def csv_cells(job: Job, zone: tzinfo) -> list[Any]:
    """Times are ISO 8601 in the reader's zone, with its offset."""
    is_waiting = JobStatus(job.status) in JOB_WAITING
    reason = (job.reason or {}) if is_waiting else {}
    expected = expected_start(job)
    return [
        *(job.label, job.name, job.project.slug, job.owner.username, job.kind, job.status),
        *(reason.get("code", ""), reason.get("sentence", ""), job.position or ""),
        *(_iso(expected.range_at if expected else None, zone), device_label(job)),
        job.time_limit_seconds,
        *(_iso(at, zone) for at in (job.submitted_at, job.started_at, job.finished_at)),
        *(job.failure_cause, (job.diagnosis or {}).get("sentence", "")),
    ]


def _iso(moment: datetime | None, zone: tzinfo) -> str:
    return moment.astimezone(zone).isoformat(timespec="seconds") if moment else ""
