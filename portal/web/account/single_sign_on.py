"""What sign-in through an organisation has in common, by OpenID Connect or SAML.

Nobody becomes an existing account by name or by mail address.
"""

from typing import Any

import structlog
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialLogin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from portal.accounts.models import User

log = structlog.get_logger()
NAME_LENGTH = 150


class OrganisationAdapter(DefaultSocialAccountAdapter):
    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        """Whoever the provider knows gets an account, in no project until an admin adds it."""
        return True

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Mail addresses identify nobody here, so none is compared or confirmed."""
        sociallogin.email_addresses = []

    def populate_user(
        self, request: HttpRequest, sociallogin: SocialLogin, data: dict[str, Any]
    ) -> User:
        """A suggestion: a name that is taken, or not plain ASCII, is replaced by a free one."""
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
        """The reason is for the log and no page: it may be somebody's attempt to learn."""
        log.warning(
            "organisation_sign_in_failed",
            provider=provider.name,
            error=str(error),
            why=str(exception),
        )

    def get_connect_redirect_url(self, request: HttpRequest, socialaccount: Any) -> str:
        return reverse("web:account")


def redirect_page(request: HttpRequest, answer: HttpResponse, name: str) -> HttpResponse:
    """Where `answer` leads, by a page of ours: `form-action 'self'` lets no form lead elsewhere."""
    address = answer.headers.get("Location", "")
    if not address.startswith(("https://", "http://")):
        return answer
    return render(request, "socialaccount/leaving.html", {"address": address, "name": name})
