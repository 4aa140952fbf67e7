"""Requests for higher limits: what each asks, what granting it changes, and the decision."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from portal.availability.promises import current_promises
from portal.errors import Refused
from portal.quotas.limit_requests import limit_requests_to_decide
from portal.submission.approvals import may_decide_approvals
from portal.submission.limit_requests import limit_request_decide, limit_request_effects
from portal.web.http import AuthenticatedHttpRequest
from portal.web.wording.messages import refusal_text

PAGE_SIZE = 50
VERDICTS = ("grant", "decline")


@login_required
@require_http_methods(["GET", "POST"])
def limit_requests(request: AuthenticatedHttpRequest) -> HttpResponse:
    """Project admins decide about their members' own quotas, platform admins about all limits."""
    if not may_decide_approvals(request.user):
        raise Http404
    return _decide(request) if request.method == "POST" else _page(request)


def _page(
    request: AuthenticatedHttpRequest, error: str = "", failed: int = 0, status: int = 200
) -> HttpResponse:
    rows = limit_requests_to_decide(request.user)
    shown = list(rows[:PAGE_SIZE])
    count = len(shown) if len(shown) < PAGE_SIZE else rows.count()
    promises = current_promises({row.project.slug for row in shown}) if shown else []
    context = {
        "effects": limit_request_effects(shown, promises),
        "headline": _headline(count),
        "more": count - len(shown),
        "error": error,
        "failed": failed,
        "answer": request.POST.get("answer", "")[:200],
    }
    return render(request, "web/console/limit_requests.html", context, status=status)


def _decide(request: AuthenticatedHttpRequest) -> HttpResponse:
    verdict = request.POST.get("verdict", "")
    number = request.POST.get("request", "")
    pk = int(number) if number.isdecimal() and len(number) < 19 else 0
    if verdict not in VERDICTS:
        return _page(request, _("Choose grant or decline"), pk, 400)
    is_grant, answer = verdict == "grant", request.POST.get("answer", "")
    try:
        limit_request_decide(request_id=pk, actor=request.user, grant=is_grant, answer=answer)
    except Refused as refused:
        return _page(request, refusal_text(refused), pk, refused.status)
    done = (
        _("Granted. The limit is raised") if is_grant else _("Declined. The user sees your reason")
    )
    messages.success(request, done)
    return redirect("web:limit_requests")


def _headline(count: int) -> str:
    if not count:
        return _("No requests for higher limits")
    title = ngettext("%(n)s request for a higher limit", "%(n)s requests for higher limits", count)
    return title % {"n": count}
