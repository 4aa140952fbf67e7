"""The comparison of chosen jobs, and their points as a file."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from portal.csv_text import csv_lines
from portal.job_metrics.selectors import points_load, points_of, series_of
from portal.web.comparison.context import chosen_jobs, comparison_context
from portal.web.http import AuthenticatedHttpRequest
from portal.web.series_chart import MAX_LINES

COLUMNS = ("job", "name", "rank", "step", "value")
# Of a file; REST has all of them.
MAX_SERIES = 300


@login_required
@require_safe
def compare(request: AuthenticatedHttpRequest) -> HttpResponse:
    context = comparison_context(request.user, request.GET.getlist("job"))
    return render(request, "web/comparison/compare.html", context)


@login_required
@require_safe
def compare_csv(request: AuthenticatedHttpRequest) -> HttpResponse:
    jobs = chosen_jobs(request.user, request.GET.getlist("job"))[0][:MAX_LINES]
    labels = {job.pk: job.label for job in jobs}
    series = series_of(jobs)[:MAX_SERIES]
    points_load(series)
    lines = [
        (labels[row.job_id], row.name, row.rank, step, repr(value))
        for row in series
        for step, value in points_of(row)
    ]
    # The byte order mark makes spreadsheets read UTF-8.
    body = "\ufeff" + csv_lines([COLUMNS, *lines])
    response = HttpResponse(body, content_type="text/csv; charset=utf-8")
    name = f"metrics-{timezone.localdate():%Y-%m-%d}.csv"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Cache-Control"] = "no-store"
    response["X-Content-Type-Options"] = "nosniff"
    return response
