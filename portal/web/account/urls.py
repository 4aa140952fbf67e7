"""URLs of sign-in and of the account. Names without a namespace are allauth's own.

Only the allauth views with a page in the portal are served: no mail addresses, no reset by mail.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from allauth.account import views as account
from allauth.mfa.base import views as factors
from allauth.mfa.recovery_codes import views as codes
from allauth.mfa.totp import views as app
from allauth.mfa.webauthn import views as passkeys
from allauth.socialaccount import views as social
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LogoutView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache

from portal.web.account import oidc


@login_required
def to_account(request: HttpRequest) -> HttpResponse:
    """Replaces allauth's own overview pages."""
    return redirect("web:account")


def private(view: Callable[..., Any]) -> Callable[..., Any]:
    """For signed-in users, and never cached: these pages show secrets."""
    return never_cache(login_required(view))


SIGN_IN = [
    path("sign-in/", account.login, name="account_login"),
    path("sign-up/", account.signup, name="account_signup"),
    path("sign-out/", LogoutView.as_view(), name="account_logout"),
    path("sign-in/inactive/", account.account_inactive, name="account_inactive"),
    path("sign-in/second-step/", never_cache(factors.authenticate), name="mfa_authenticate"),
    path("sign-in/passkey/", never_cache(passkeys.login_webauthn), name="mfa_login_webauthn"),
    path("sign-in/confirm/", private(account.reauthenticate), name="account_reauthenticate"),
    path("sign-in/confirm/code/", private(factors.reauthenticate), name="mfa_reauthenticate"),
    path(
        "sign-in/confirm/passkey/",
        private(passkeys.reauthenticate_webauthn),
        name="mfa_reauthenticate_webauthn",
    ),
]
PROVIDER = [
    path("sign-in/oidc/<slug:provider_id>/", oidc.start, name="openid_connect_login"),
    path("sign-in/oidc/<slug:provider_id>/back/", oidc.callback, name="openid_connect_callback"),
    path("sign-in/cancelled/", social.login_cancelled, name="socialaccount_login_cancelled"),
    path("sign-in/failed/", social.login_error, name="socialaccount_login_error"),
    path("sign-in/new/", social.signup, name="socialaccount_signup"),
    path("account/connections/", to_account, name="socialaccount_connections"),
]
OWN = [
    path("account/password/", private(account.password_change), name="account_change_password"),
    path("account/password/none/", to_account, name="account_set_password"),
    path("account/second-step/", to_account, name="mfa_index"),
    path("account/second-step/app/", private(app.activate_totp), name="mfa_activate_totp"),
    path("account/second-step/app/off/", private(app.deactivate_totp), name="mfa_deactivate_totp"),
    path(
        "account/second-step/codes/",
        private(codes.view_recovery_codes),
        name="mfa_view_recovery_codes",
    ),
    path(
        "account/second-step/codes/new/",
        private(codes.generate_recovery_codes),
        name="mfa_generate_recovery_codes",
    ),
    path("account/passkeys/", to_account, name="mfa_list_webauthn"),
    path("account/passkeys/add/", private(passkeys.add_webauthn), name="mfa_add_webauthn"),
    path(
        "account/passkeys/<int:pk>/remove/",
        private(passkeys.remove_webauthn),
        name="mfa_remove_webauthn",
    ),
]
SAML = "sign-in/saml/<slug:organization_slug>/"


def saml_patterns() -> list[URLPattern]:
    """Empty if the packages are not installed: they are an optional 25 MB."""
    if find_spec("onelogin") is None:
        return []
    from portal.web.account import saml  # noqa: PLC0415

    return [
        path(SAML, saml.start, name="saml_login"),
        path(f"{SAML}back/", saml.assertion_posted, name="saml_acs"),
        path(f"{SAML}back/finish/", saml.finish, name="saml_finish_acs"),
        path(f"{SAML}metadata/", saml.metadata, name="saml_metadata"),
        path(f"{SAML}sign-out/", saml.no_sign_out, name="saml_sls"),
    ]


urlpatterns = [*SIGN_IN, *PROVIDER, *saml_patterns(), *OWN]
