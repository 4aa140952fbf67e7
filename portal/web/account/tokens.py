"""API tokens on the Account page: created, shown once, revoked."""

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
from portal.accounts.services import MAX_TOKENS, token_create, token_revoke
from portal.errors import Refused
from portal.web.account.forms import TokenForm
from portal.web.account.views import render_account
from portal.web.http import AuthenticatedHttpRequest
from portal.web.wording.messages import refusal_text


@require_http_methods(["GET", "POST"])
@never_cache
@login_required
@sensitive_variables("secret")
def create(request: AuthenticatedHttpRequest) -> HttpResponse:
    """Create a token. Its secret is shown in this answer only."""
    if request.method == "GET":
        return redirect("web:account")
    form = TokenForm(request.POST)
    if not form.is_valid():
        return render_account(request, token_form=form, status=400)
    try:
        token, secret = token_create(
            user=request.user,
            name=form.cleaned_data["name"],
            scope=TokenScope(form.cleaned_data["scope"]),
            ttl=timedelta(days=form.cleaned_data["days"]),
        )
    except Refused as refused:
        name = refused.field if refused.field in form.fields else "name"
        form.add_error(name, _refusal_sentence(refused))
        return render_account(request, token_form=form, status=refused.status)
    context = {"token": token, "secret": secret, "address": request.build_absolute_uri("/")}
    return render(request, "web/account/token_created.html", context)


def _refusal_sentence(refused: Refused) -> str:
    if refused.code == "too_many_tokens":
        limit = {"n": MAX_TOKENS}
        return _("You already have %(n)s active tokens. Revoke one that you no longer use") % limit
    return refusal_text(refused)


@require_http_methods(["GET", "POST"])
@never_cache
@login_required
def revoke(request: AuthenticatedHttpRequest, key: str) -> HttpResponse:
    """Ask for confirmation, then delete the token. Another user's token answers 404."""
    token = tokens_of(request.user).filter(token_key=key).first()
    if token is None:
        raise Http404
    if request.method == "POST":
        token_revoke(token=token)
        messages.success(request, _("Token revoked. The next request with it is refused"))
        return redirect("web:account")
    return render(request, "web/account/token_revoke.html", {"token": token})
