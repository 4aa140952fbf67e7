"""Sign-in by django-allauth: local accounts, second factors, passkeys and OpenID Connect; SAML and
LDAP if their packages are installed.

The pages are in `portal.web.account` and in `account`, `mfa` and `socialaccount` of
`templates`. Operators configure sign-in in `portal.platform`; see docs/accounts.md.
"""

from importlib.util import find_spec
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from portal.platform import Platform
from portal.settings.configured import PLATFORM


def provider_apps(platform: Platform) -> list[dict[str, Any]]:
    """allauth's configuration of the OpenID Connect provider; empty without one."""
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


def saml_apps(platform: Platform) -> list[dict[str, Any]]:
    """allauth's configuration of the SAML identity provider; empty without one.

    Raises ImproperlyConfigured if its packages are missing or a setting is.
    """
    if not platform.saml_metadata_url:
        return []
    _require("TESSERA_SAML_METADATA_URL", "saml", "onelogin")
    if not platform.saml_entity_id:
        raise ImproperlyConfigured("TESSERA_SAML_METADATA_URL also needs TESSERA_SAML_ENTITY_ID")
    own = {
        "idp": {
            "metadata_url": platform.saml_metadata_url,
            "entity_id": platform.saml_entity_id,
        },
        "attribute_mapping": {
            "uid": "urn:oasis:names:tc:SAML:attribute:subject-id",
            "username": platform.saml_username,
            "email": "urn:oid:0.9.2342.19200300.100.1.3",
            "first_name": "urn:oid:2.5.4.42",
            "last_name": "urn:oid:2.5.4.4",
        },
        "advanced": {
            "strict": True,
            # Internal host names often have no dot, such as `gpu`.
            "allow_single_label_domains": True,
            "want_assertion_signed": True,
            "reject_deprecated_algorithm": True,
            "reject_idp_initiated_sso": True,
            "name_id_format": "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent",
            "want_name_id": True,
            "want_attribute_statement": False,
        },
    }
    return [
        {
            "provider_id": platform.saml_entity_id,
            "name": platform.saml_name,
            "client_id": "sso",
            "settings": own,
        }
    ]


def directory_settings(platform: Platform) -> dict[str, Any]:
    """The settings of django-auth-ldap; empty without a directory.

    Raises ImproperlyConfigured if its packages are missing or a setting is.
    """
    if not platform.ldap_url:
        return {}
    _require("TESSERA_LDAP_URL", "ldap", "django_auth_ldap")
    if not platform.ldap_people:
        raise ImproperlyConfigured("TESSERA_LDAP_URL also needs TESSERA_LDAP_PEOPLE")
    from portal.settings.directory import ldap_settings  # noqa: PLC0415 - its packages may be missing

    return ldap_settings(platform)


def _require(variable: str, extra: str, module: str) -> None:
    if find_spec(module) is None:
        sentence = f"{variable} is set, but its packages are not installed: see docs/accounts.md"
        raise ImproperlyConfigured(f"{sentence}, and requirements/{extra}.lock")


SIGN_IN_APPS = [
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.socialaccount.providers.saml",
    "allauth.mfa",
    "allauth.usersessions",
]
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
if _directory := directory_settings(PLATFORM):
    AUTHENTICATION_BACKENDS.append("portal.web.account.directory.DirectoryBackend")
    globals().update(_directory)

ACCOUNT_ADAPTER = "portal.web.account.adapter.AccountAdapter"
ACCOUNT_FORMS = {"login": "portal.web.account.adapter.SignInForm"}
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*", "password2*"]
# Accounts are added by an admin or by single sign-on, so no mail server is needed.
ACCOUNT_EMAIL_VERIFICATION = "none"
# Excludes look-alike letters of other scripts.
ACCOUNT_USERNAME_VALIDATORS = "portal.web.account.adapter.USERNAME_VALIDATORS"
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_REAUTHENTICATION_TIMEOUT = 300
# Wrong passwords and codes of one client address; as many wrong tokens for apps (`portal.apps`).
WRONG_SECRETS_A_MINUTE = 30
ACCOUNT_RATE_LIMITS = {
    # By client address, and by account.
    "login_failed": f"{WRONG_SECRETS_A_MINUTE}/m/ip,5/5m/key",
    "login": "60/m/ip",
    "change_password": "5/m/user",
    "reauthenticate": "10/m/user",
}
# `portal.client_address` has put the caller's address into REMOTE_ADDR.
ALLAUTH_TRUSTED_PROXY_COUNT = 0

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
# An unverified address from an identity provider must not prevent a second factor.
MFA_ALLOW_UNVERIFIED_EMAIL = True

USERSESSIONS_TRACK_ACTIVITY = False

SOCIALACCOUNT_ADAPTER = "portal.web.account.single_sign_on.OrganisationAdapter"
SOCIALACCOUNT_EMAIL_VERIFICATION = "none"
SOCIALACCOUNT_PROVIDERS = {
    "openid_connect": {"APPS": provider_apps(PLATFORM)},
    "saml": {
        "APPS": saml_apps(PLATFORM),
        "provider_class": "portal.web.account.saml_provider.SamlProvider",
    },
}
