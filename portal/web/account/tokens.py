"""One's API tokens in the browser: made, shown once, revoked. The same services as REST."""

from datetime import timedelta

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods

from portal.accounts.models import TokenScope
from portal.accounts.selectors import tokens_of
from portal.accounts.services import MAX_TOKEN_TTL, MAX_TOKENS, token_create, token_revoke
from portal.errors import Refused
from portal.web.account.views import render_account
from portal.web.http import AuthenticatedHttpRequest
from portal.web.wording.messages import refusal_text

NAME_LENGTH = 64


@require_http_methods(["GET", "POST"])
@never_cache
@login_required
@sensitive_variables("text")
def create(request: AuthenticatedHttpRequest) -> HttpResponse:
    """A new token, shown in this answer and never again."""
    if request.method == "GET":
        return redirect("web:account")
    asked = {name: request.POST.get(name, "").strip() for name in ("name", "scope", "days")}
    errors = token_errors(asked)
    if errors:
        return render_account(request, errors=errors, asked=asked, status=400)
    lives = timedelta(days=int(asked["days"]))
    try:
        token, text = token_create(
            user=request.user, name=asked["name"], scope=TokenScope(asked["scope"]), ttl=lives
        )
    except Refused as refused:
        errors = {refused.field or "name": refusal_sentence(refused)}
        return render_account(request, errors=errors, asked=asked, status=refused.status)
    shown = {"token": token, "text": text, "address": request.build_absolute_uri("/")}
    return render(request, "web/account/token_made.html", shown)


def token_errors(asked: dict[str, str]) -> dict[str, str]:
    """What is wrong with a token that was asked for, by field: what to write instead."""
    found = {}
    if not asked["name"] or len(asked["name"]) > NAME_LENGTH or not asked["name"].isprintable():
        found["name"] = _("Write where it will be used, in 1 to 64 characters of one line")
    if asked["scope"] not in set(TokenScope):
        found["scope"] = _("Choose what it may do")
    days = asked["days"]
    if not (days.isascii() and days.isdigit()) or not 1 <= int(days[:9]) <= MAX_TOKEN_TTL.days:
        found["days"] = _("Write a number of days from 1 to 365")
    return found


def refusal_sentence(refused: Refused) -> str:
    if refused.code == "too_many_tokens":
        most = {"n": MAX_TOKENS}
        return _("You have %(n)s tokens that work. Revoke one that you no longer use") % most
    return refusal_text(refused)


@require_http_methods(["GET", "POST"])
@never_cache
@login_required
def revoke(request: AuthenticatedHttpRequest, key: str) -> HttpResponse:
    """Ask, then delete. Somebody else's token looks like none."""
    token = tokens_of(request.user).filter(token_key=key).first()
    if token is None:
        raise Http404
    if request.method == "POST":
        token_revoke(token=token)
        messages.success(request, _("Revoked. The next call with it is turned away"))
        return redirect("web:account")
    return render(request, "web/account/token_revoke.html", {"token": token})
