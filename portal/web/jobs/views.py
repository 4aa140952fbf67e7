"""Jobs: everything that the user may see, filtered by the address, and ending several at once."""

from urllib.parse import urlencode

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
from portal.web.jobs.context import filters_of, job_list_context


@login_required
def jobs(request: AuthenticatedHttpRequest) -> HttpResponse:
    return render(request, "web/jobs.html", job_list_context(request.user, request.GET))


@login_required
@require_http_methods(["GET", "POST"])
def bulk_cancel(request: AuthenticatedHttpRequest) -> HttpResponse:
    """Asks first, naming what is lost and whose it is; a POST ends what was named."""
    user = request.user
    asked = request.POST if request.method == "POST" else request.GET
    back = _back(request, asked)
    try:
        chosen = cancel_selection(user, asked.getlist("job"))
    except Refused as refused:
        messages.error(request, _why(refused))
        return HttpResponseRedirect(back)
    if request.method == "GET":
        return render(request, "web/jobs/cancel.html", {"chosen": chosen, "back": back})
    jobs_cancel(jobs=chosen.cancellable, actor=user.username)
    _tell(request, chosen)
    return HttpResponseRedirect(back)


def _back(request: AuthenticatedHttpRequest, asked: QueryDict) -> str:
    """The list as it was filtered: only its own filters, so it leads nowhere else."""
    query = QueryDict(asked.get("filters", ""))
    kept = urlencode(hidden_fields(filters_of(request.user, query)))
    return f"{reverse('web:jobs')}?{kept}" if kept else reverse("web:jobs")


def _why(refused: Refused) -> str:
    if refused.code == "too_many":
        return _("Choose at most %(n)s jobs at once") % {"n": MAX_JOBS}
    return _("Choose at least one job: tick the box before its name")


def _tell(request: HttpRequest, chosen: CancelSelection) -> None:
    count = len(chosen.cancellable)
    if count:
        said = ngettext("%(n)s job cancelled", "%(n)s jobs cancelled", count) % {"n": count}
        messages.success(request, said)
    left = len(chosen.ended) + len(chosen.forbidden) + chosen.unknown_count
    if left or not count:
        said = ngettext(
            "%(n)s job left as it is: it had ended, or it is not yours to cancel",
            "%(n)s jobs left as they are: they had ended, or are not yours to cancel",
            left,
        )
        messages.info(request, said % {"n": left})
