"""The Account page: who one is here, and everything that can act in one's name."""

from dataclasses import dataclass
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache

from portal.accounts.models import ApiToken, Membership, TokenScope, User
from portal.accounts.selectors import tokens_of
from portal.accounts.services import MAX_TOKEN_TTL
from portal.accounts.sessions import active_sessions
from portal.web.account.sessions import browser_of
from portal.web.http import AuthenticatedHttpRequest

TOKEN_LIFETIME_DAYS = (7, 30, 90, 365)
NEW_TOKEN = {"name": "", "scope": str(TokenScope.WRITE), "days": "90"}


@dataclass(frozen=True, slots=True)
class SecondSteps:
    """What stands between a stolen password and this account."""

    app: Authenticator | None
    passkeys: list[Authenticator]
    codes_left: int

    @property
    def is_on(self) -> bool:
        return bool(self.app or self.passkeys)


@dataclass(frozen=True, slots=True)
class SignInMethod:
    """A sign-in of the organisation; `provider` is allauth's."""

    provider: Any
    is_connected: bool


@never_cache
@login_required
def account(request: AuthenticatedHttpRequest) -> HttpResponse:
    return render_account(request)


def render_account(
    request: AuthenticatedHttpRequest,
    *,
    errors: dict[str, str] | None = None,
    status: int = 200,
    **extra: Any,
) -> HttpResponse:
    """The page, with what a form on it was refused for; `asked` is what was typed."""
    context = {
        **account_context(request.user, request),
        "asked": NEW_TOKEN,
        "errors": errors or {},
    }
    return render(request, "web/account.html", context | extra, status=status)


def account_context(user: User, request: HttpRequest) -> dict[str, Any]:
    tokens = list(tokens_of(user))
    browsers = [browser_of(row, request) for row in active_sessions(user)]
    return {
        "headline": headline(tokens, len(browsers)),
        "tokens": tokens,
        "now": timezone.now(),
        "browsers": browsers,
        "steps": second_steps(user),
        "memberships": memberships_of(user),
        "ways": sign_in_methods(user, request),
        "scopes": scope_choices(user),
        "lives": TOKEN_LIFETIME_DAYS,
        "most_days": MAX_TOKEN_TTL.days,
    }


def headline(tokens: list[ApiToken], browsers: int) -> str:
    now = timezone.now()
    live = sum(token.expiry is None or token.expiry > now for token in tokens)
    n = {"n": live}
    first = ngettext("%(n)s API token works", "%(n)s API tokens work", live) % n
    n = {"n": browsers}
    last = ngettext("%(n)s browser is signed in", "%(n)s browsers are signed in", browsers) % n
    return _("%(first)s, %(last)s") % {"first": first, "last": last}


def scope_choices(user: User) -> list[tuple[str, str, str]]:
    """Each scope, its word and what it lets a token do."""
    top = (
        _("also nodes, projects, quotas and tokens")
        if user.is_platform_admin
        else _("also tokens, and what you may as admin of a project")
    )
    return [
        (str(TokenScope.READ), _("Read"), _("see what you see, change nothing")),
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


def memberships_of(user: User) -> QuerySet[Membership]:
    return Membership.objects.filter(user=user).select_related("project").order_by("project__slug")


def sign_in_methods(user: User, request: HttpRequest) -> list[SignInMethod]:
    """The organisation's sign-ins, as they are configured, and which of them are this user's."""
    connected = set(SocialAccount.objects.filter(user=user).values_list("provider", flat=True))
    return [
        SignInMethod(provider, not connected.isdisjoint({provider.id, provider.sub_id}))
        for provider in get_adapter().list_providers(request)
    ]
