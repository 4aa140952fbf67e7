"""The Jobs page: all jobs that the user may see, with filters and bulk cancel."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from portal.errors import Refused
from portal.jobs.bulk_cancel import MAX_JOBS, CancelSelection, cancel_selection, jobs_cancel
from portal.jobs.filters import hidden_fields
from portal.web.http import AuthenticatedHttpRequest
from portal.web.jobs.context import job_filters, job_list_context, list_query
from portal.web.project_choice import follows_project_choice, project_choice


@login_required
@follows_project_choice
def jobs(request: AuthenticatedHttpRequest) -> HttpResponse:
    memberships = project_choice(request).memberships
    context = job_list_context(request.user, request.GET, memberships)
    return render(request, "web/jobs.html", context)


@login_required
@require_http_methods(["GET", "POST"])
def bulk_cancel(request: AuthenticatedHttpRequest) -> HttpResponse:
    """A GET asks for confirmation and names the jobs; a POST cancels them."""
    user = request.user
    data = request.POST if request.method == "POST" else request.GET
    back = _list_address(request, data)
    try:
        selection = cancel_selection(user, data.getlist("job"))
    except Refused as refused:
        messages.error(request, _selection_error(refused))
        return HttpResponseRedirect(back)
    if request.method == "GET":
        return render(request, "web/jobs/cancel.html", {"selection": selection, "back": back})
    jobs_cancel(jobs=selection.cancellable, actor=user.username)
    _add_messages(request, selection)
    return HttpResponseRedirect(back)


def _list_address(request: AuthenticatedHttpRequest, data: QueryDict) -> str:
    """The list with its filters. Only known filters are kept, so it cannot lead to another site."""
    query = QueryDict(data.get("filters", ""))
    kept = list_query(hidden_fields(job_filters(request.user, query)))
    return f"{reverse('web:jobs')}?{kept}"


def _selection_error(refused: Refused) -> str:
    if refused.code == "too_many":
        return _("Select at most %(n)s jobs at once") % {"n": MAX_JOBS}
    return _("Select at least one job: tick the box before its name")


def _add_messages(request: HttpRequest, selection: CancelSelection) -> None:
    count = len(selection.cancellable)
    if count:
        text = ngettext("%(n)s job cancelled", "%(n)s jobs cancelled", count) % {"n": count}
        messages.success(request, text)
    skipped = len(selection.ended) + len(selection.forbidden) + selection.unknown_count
    if skipped or not count:
        text = ngettext(
            "%(n)s job not cancelled: it has ended, or you may not cancel it",
            "%(n)s jobs not cancelled: they have ended, or you may not cancel them",
            skipped,
        )
        messages.info(request, text % {"n": skipped})
