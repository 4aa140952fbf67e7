"""The page of notices: what is mailed, a test mail, and the link in each mail that ends them."""

from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST

from portal.accounts.models import User
from portal.errors import Refused
from portal.notices.kinds import KIND_LABELS
from portal.notices.models import MAX_MINUTES
from portal.notices.selectors import latest_mail, notice_settings
from portal.notices.services import kinds_for, mails_stop, notice_settings_set, notice_test_send
from portal.notices.unsubscribing import person_of
from portal.web.http import AuthenticatedHttpRequest, refusals_as_messages
from portal.web.wording.messages import refusal_text

MINUTES = ("wait_minutes", "lead_minutes")


@dataclass(frozen=True, slots=True)
class KindChoice:
    value: str
    label: str | Promise
    is_on: bool


@require_http_methods(["GET", "POST"])
@never_cache
@login_required
def notices(request: AuthenticatedHttpRequest) -> HttpResponse:
    """Show and save what this person is mailed."""
    if request.method == "GET":
        return _page(request)
    minutes = {name: _whole_number(request.POST.get(name, "")) for name in MINUTES}
    try:
        notice_settings_set(user=request.user, kinds=request.POST.getlist("kind"), **minutes)
    except Refused as refused:
        return _page(request, {refused.field: refusal_text(refused)}, refused.status)
    messages.success(request, _("Saved"))
    return redirect("web:notices")


@require_POST
@login_required
def test_mail(request: AuthenticatedHttpRequest) -> HttpResponse:
    with refusals_as_messages(request):
        notice_test_send(user=request.user)
        messages.success(
            request, _("A test mail is on its way. Reload this page to see whether it was sent")
        )
    return redirect("web:notices")


@csrf_exempt
@require_http_methods(["GET", "POST"])
@never_cache
def stop(request: HttpRequest, token: str) -> HttpResponse:
    """The address in a mail, without signing in: its signature says whose mails end. A GET only
    asks, since programs follow links; a mail program posts (RFC 8058)."""
    person = person_of(token)
    if person is None:
        raise Http404
    if request.method == "POST":
        mails_stop(user=person)
    context = {"person": person, "is_done": request.method == "POST"}
    return render(request, "web/account/notices_stop.html", context)


def _page(
    request: AuthenticatedHttpRequest, errors: dict[str, str] | None = None, status: int = 200
) -> HttpResponse:
    user, posted = request.user, request.POST if errors else None
    chosen = notice_settings(user)
    on = set(posted.getlist("kind") if posted else chosen.kinds)
    context = {
        "headline": _headline(user, len(on)),
        "choices": [KindChoice(kind, KIND_LABELS[kind], kind in on) for kind in kinds_for(user)],
        "minutes": {n: posted.get(n) if posted else getattr(chosen, n) for n in MINUTES},
        "max_minutes": MAX_MINUTES,
        "errors": errors or {},
        "mail": latest_mail(user),
    }
    return render(request, "web/account/notices.html", context, status=status)


def _headline(user: User, count: int) -> str:
    if not user.email:
        return _("Your account has no mail address")
    return _("Notices go to %(address)s") % {"address": user.email} if count else _("No mails")


def _whole_number(text: str) -> int:
    """0 for what is no number: it is refused like one that is too small."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0
