"""Shared by the organisation's sign-ins, OpenID Connect and SAML.

An existing account is never matched by name or mail address.
"""

import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

from allauth.account.internal.decorators import login_not_required
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialLogin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from portal.accounts.models import User

log = logging.getLogger(__name__)
NAME_LENGTH = 150
View = TypeVar("View", bound=Callable[..., HttpResponse])


class OrganisationAdapter(DefaultSocialAccountAdapter):
    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        """Every user of the provider gets an account, in no project until an admin adds it."""
        return True

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Mail addresses do not identify users, so none is compared or confirmed."""
        sociallogin.email_addresses = []

    def populate_user(
        self, request: HttpRequest, sociallogin: SocialLogin, data: dict[str, Any]
    ) -> User:
        """Suggest a user name; one that is taken or not ASCII is replaced by a free one."""
        user: User = super().populate_user(request, sociallogin, data)
        user.first_name, user.last_name = (
            user.first_name[:NAME_LENGTH],
            user.last_name[:NAME_LENGTH],
        )
        return user

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Any = None,
        **_: Any,
    ) -> None:
        """Log the reason and show it on no page, because it could help an attacker."""
        # %r: the texts come from outside and may hold line breaks.
        log.warning(
            "sign-in through %s failed: error %r, exception %r",
            provider.name,
            str(error),
            str(exception),
        )

    def get_connect_redirect_url(self, request: HttpRequest, socialaccount: Any) -> str:
        return reverse("web:account")


def redirect_page(request: HttpRequest, response: HttpResponse, name: str) -> HttpResponse:
    """A page of the portal that leads to the redirect target of `response`.

    The CSP's `form-action 'self'` stops a form from redirecting to another site directly.
    """
    address = response.headers.get("Location", "")
    if not address.startswith(("https://", "http://")):
        return response
    return render(request, "socialaccount/redirect.html", {"address": address, "name": name})


def open_to_all(view: View) -> View:
    """allauth's decorator for views that need no login, with a type."""
    return cast("View", login_not_required(view))
