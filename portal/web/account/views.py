"""The Account page: the user's profile and everything that can act in their name."""

from dataclasses import dataclass
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache

from portal.accounts.models import ApiToken, TokenScope, User
from portal.accounts.selectors import tokens_of
from portal.accounts.services import MAX_TOKEN_TTL
from portal.accounts.sessions import active_sessions
from portal.accounts.time_zones import zones_by_region
from portal.web.account.forms import TokenForm
from portal.web.account.sessions import browser_of
from portal.web.http import AuthenticatedHttpRequest
from portal.web.project_choice import project_choice

TOKEN_LIFETIME_DAYS = (7, 30, 90, 365)


@dataclass(frozen=True, slots=True)
class SecondSteps:
    """The second factors of an account."""

    app: Authenticator | None
    passkeys: list[Authenticator]
    codes_left: int

    @property
    def is_on(self) -> bool:
        return bool(self.app or self.passkeys)


@dataclass(frozen=True, slots=True)
class SignInMethod:
    """A sign-in of the organisation."""

    # allauth's provider.
    provider: Any
    is_connected: bool


@never_cache
@login_required
def account(request: AuthenticatedHttpRequest) -> HttpResponse:
    return render_account(request)


def render_account(
    request: AuthenticatedHttpRequest, *, token_form: TokenForm | None = None, status: int = 200
) -> HttpResponse:
    """The page, with the token form as it was refused."""
    context = account_context(request.user, request)
    context["token_form"] = token_form or TokenForm()
    return render(request, "web/account/account.html", context, status=status)


def account_context(user: User, request: HttpRequest) -> dict[str, Any]:
    tokens = list(tokens_of(user))
    browsers = [browser_of(row, request) for row in active_sessions(user)]
    return {
        "headline": headline(tokens, len(browsers)),
        "tokens": tokens,
        "now": timezone.now(),
        "browsers": browsers,
        "second_steps": second_steps(user),
        "memberships": project_choice(request).memberships,
        "sign_in_methods": sign_in_methods(user, request),
        "zones": zones_by_region(),
        "scopes": scope_choices(user),
        "lifetimes": TOKEN_LIFETIME_DAYS,
        "max_days": MAX_TOKEN_TTL.days,
    }


def headline(tokens: list[ApiToken], browsers: int) -> str:
    now = timezone.now()
    live = sum(token.expiry is None or token.expiry > now for token in tokens)
    tokens_live = ngettext("%(n)s active API token", "%(n)s active API tokens", live) % {"n": live}
    signed_in = ngettext("%(n)s browser signed in", "%(n)s browsers signed in", browsers) % {
        "n": browsers
    }
    return _("%(first)s, %(last)s") % {"first": tokens_live, "last": signed_in}


def scope_choices(user: User) -> list[tuple[str, str, str]]:
    """Value, label and help of each scope."""
    top = (
        _("also nodes, projects, quotas and tokens")
        if user.is_platform_admin
        else _("also tokens, and what you may do as a project admin")
    )
    return [
        (str(TokenScope.READ), _("Read"), _("see what you can see, change nothing")),
        (str(TokenScope.WRITE), _("Write"), _("also submit, cancel and change your jobs")),
        (str(TokenScope.ADMIN), _("Admin"), top),
    ]


def second_steps(user: User) -> SecondSteps:
    rows = list(Authenticator.objects.filter(user=user).order_by("pk"))
    kinds = Authenticator.Type
    codes = next((row for row in rows if row.type == kinds.RECOVERY_CODES), None)
    return SecondSteps(
        app=next((row for row in rows if row.type == kinds.TOTP), None),
        passkeys=[row for row in rows if row.type == kinds.WEBAUTHN],
        codes_left=len(codes.wrap().get_unused_codes()) if codes else 0,
    )


def sign_in_methods(user: User, request: HttpRequest) -> list[SignInMethod]:
    """The configured sign-ins of the organisation, and whether this user has connected each."""
    connected = set(SocialAccount.objects.filter(user=user).values_list("provider", flat=True))
    return [
        SignInMethod(provider, not connected.isdisjoint({provider.id, provider.sub_id}))
        for provider in get_adapter().list_providers(request)
    ]
