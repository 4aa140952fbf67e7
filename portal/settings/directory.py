"""Settings of django-auth-ldap. Imported only if a directory is configured: its packages are an
extra."""

from typing import Any

import ldap
from django_auth_ldap.config import LDAPSearch

from portal.platform import Platform

SECONDS = 5


def ldap_settings(platform: Platform) -> dict[str, Any]:
    """Search for the person, then bind as them, always over TLS. No LDAP group makes an admin."""
    options = {
        ldap.OPT_NETWORK_TIMEOUT: SECONDS,
        ldap.OPT_TIMEOUT: SECONDS,
        ldap.OPT_REFERRALS: 0,
        ldap.OPT_X_TLS_REQUIRE_CERT: ldap.OPT_X_TLS_DEMAND,
    }
    if platform.ldap_certificates:
        options[ldap.OPT_X_TLS_CACERTFILE] = platform.ldap_certificates
    # Applies the TLS options above; it must come last.
    options[ldap.OPT_X_TLS_NEWCTX] = 0
    search = LDAPSearch(platform.ldap_people, ldap.SCOPE_SUBTREE, platform.ldap_filter, ["*", "+"])
    return {
        "AUTH_LDAP_SERVER_URI": platform.ldap_url,
        "AUTH_LDAP_START_TLS": not platform.ldap_url.startswith("ldaps://"),
        "AUTH_LDAP_CONNECTION_OPTIONS": options,
        "AUTH_LDAP_BIND_DN": platform.ldap_bind_dn,
        "AUTH_LDAP_BIND_PASSWORD": platform.ldap_bind_password,
        "AUTH_LDAP_USER_SEARCH": search,
        "AUTH_LDAP_USER_ATTR_MAP": {"first_name": "givenName", "last_name": "sn", "email": "mail"},
        "AUTH_LDAP_IDENTIFIER": platform.ldap_id,
    }
