"""The page of an array; its members are cancelled or retried together."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.arrays.models import JobArray
from portal.arrays.selectors import array_visible, member_counts
from portal.arrays.services import array_cancel
from portal.csv_text import csv_lines
from portal.errors import Refused
from portal.job_metrics.array_results import results_table
from portal.jobs.selectors import may_cancel_work
from portal.submission.arrays import array_retry
from portal.submission.limits import request_limits
from portal.web.array.context import array_context
from portal.web.http import AuthenticatedHttpRequest
from portal.web.wording.messages import refusal_text
from scheduler.core.request import InvalidRequest


@login_required
@require_safe
def array_page(request: AuthenticatedHttpRequest, array: str) -> HttpResponse:
    row = _visible(request, array)
    return render(request, "web/array.html", array_context(request.user, row, request.GET))


@login_required
@require_safe
def metrics_csv(request: AuthenticatedHttpRequest, array: str) -> HttpResponse:
    """All members, whatever the page shows of them."""
    row = _visible(request, array)
    # The byte order mark makes spreadsheets read UTF-8.
    body = "\ufeff" + csv_lines(results_table(row))
    response = HttpResponse(body, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{row.label}-metrics.csv"'
    response["Cache-Control"] = "no-store"
    response["X-Content-Type-Options"] = "nosniff"
    return response


@login_required
@require_http_methods(["GET", "POST"])
def cancel(request: AuthenticatedHttpRequest, array: str) -> HttpResponse:
    """A GET asks for confirmation, because what running members keep in memory is lost."""
    row = _changeable(request, array)
    counts = member_counts([row.pk])[row.pk]
    if request.method == "GET" and not counts.is_over:
        return render(request, "web/array/cancel.html", {"array": row, "counts": counts})
    if request.method == "POST":
        n = array_cancel(array=row, actor=request.user.username)
        text = ngettext("%(n)s member cancelled", "%(n)s members cancelled", n)
        messages.success(request, text % {"n": f"{n:,}"})
    return _page(row)


@login_required
@require_POST
def retry(request: AuthenticatedHttpRequest, array: str) -> HttpResponse:
    """The members that failed or were cancelled, once more. A repeat finds none."""
    row = _changeable(request, array)
    try:
        n = len(array_retry(array=row, actor=request.user, limits=request_limits()))
    except Refused as refused:
        messages.error(request, refusal_text(refused))
    except InvalidRequest:
        text = _("The request is no longer accepted: submit a changed one")
        messages.error(request, text)
    else:
        text = ngettext("%(n)s member is queued again", "%(n)s members are queued again", n)
        messages.success(request, text % {"n": f"{n:,}"})
    return _page(row)


def _page(array: JobArray) -> HttpResponse:
    return HttpResponseRedirect(reverse("web:array", args=[array.label]))


def _visible(request: AuthenticatedHttpRequest, ref: str) -> JobArray:
    """An array that the user may not see gives the same 404 as one that does not exist."""
    try:
        return array_visible(request.user, ref)
    except Refused as refused:
        raise Http404 from refused


def _changeable(request: AuthenticatedHttpRequest, ref: str) -> JobArray:
    row = _visible(request, ref)
    if not may_cancel_work(request.user, owner=row.owner_id, project=row.project_id):
        raise PermissionDenied
    return row
