"""Signing in: django-allauth with local accounts, second steps, passkeys and OpenID Connect.

Pages of ours stand in front of all of it: `portal.web.account`, `templates/account`,
`templates/mfa` and `templates/socialaccount`. What an operator sets is in
`portal.platform`; see docs/accounts.md.
"""

import os
from typing import Any

from portal.platform import Platform, platform_from

_platform = platform_from(os.environ)


def provider_apps(platform: Platform) -> list[dict[str, Any]]:
    """The organisation's OpenID Connect provider as allauth has it; none where none is named."""
    if not platform.oidc_issuer:
        return []
    own = {
        "server_url": platform.oidc_issuer.rstrip("/"),
        "issuer": platform.oidc_issuer,
        "oauth_pkce_enabled": True,
    }
    return [
        {
            "provider_id": "sso",
            "name": platform.oidc_name,
            "client_id": platform.oidc_client_id,
            "secret": platform.oidc_client_secret,
            "settings": own,
        }
    ]


SIGN_IN_APPS = [
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.mfa",
    "allauth.usersessions",
]
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]

ACCOUNT_ADAPTER = "portal.web.account.adapter.AccountAdapter"
ACCOUNT_FORMS = {"login": "portal.web.account.adapter.SignInForm"}
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*", "password2*"]
# No mail server is needed: people are added by an admin or by the organisation's own sign-in.
ACCOUNT_EMAIL_VERIFICATION = "none"
# Look-alike letters of other scripts would make two people look the same.
ACCOUNT_USERNAME_VALIDATORS = "portal.web.account.adapter.USERNAME_VALIDATORS"
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_REAUTHENTICATION_TIMEOUT = 300
ACCOUNT_RATE_LIMITS = {
    # Wrong passwords and codes: for an address, and for an account from wherever.
    "login_failed": "30/m/ip,5/5m/key",
    "login": "60/m/ip",
    "change_password": "5/m/user",
    "reauthenticate": "10/m/user",
}
ALLAUTH_TRUSTED_PROXY_COUNT = _platform.trusted_proxies

MFA_ADAPTER = "portal.web.account.factors.FactorsAdapter"
MFA_FORMS = {
    "add_webauthn": "portal.web.account.factors.AddPasskey",
    "login_webauthn": "portal.web.account.factors.SignInByPasskey",
    "authenticate_webauthn": "portal.web.account.factors.SecondStepByPasskey",
    "reauthenticate_webauthn": "portal.web.account.factors.ConfirmByPasskey",
}
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_TOTP_ISSUER = "Tessera"
MFA_TOTP_TOLERANCE = 1
# An address that an identity provider told, and nobody verified, must not keep out a second step.
MFA_ALLOW_UNVERIFIED_EMAIL = True

USERSESSIONS_TRACK_ACTIVITY = False

SOCIALACCOUNT_ADAPTER = "portal.web.account.oidc.OidcAdapter"
SOCIALACCOUNT_EMAIL_VERIFICATION = "none"
SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": provider_apps(_platform)}}
