"""Checks of `manage.py check --deploy`: the domain of the apps."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register

from portal.apps.hosts import shared_site


@register(Tags.security, deploy=True)
def apps_domain_check(**_: Any) -> list[CheckMessage]:
    """Pages of apps are written by users: their cookies and the portal's must not mix."""
    domain = settings.PLATFORM.apps_domain
    host = shared_site(domain, settings.ALLOWED_HOSTS) if domain else ""
    if not host:
        return []
    return [
        Warning(
            f"TESSERA_APPS_DOMAIN ({domain}) and the portal's host {host} share cookies: a page of "
            "an app can set cookies that the portal is sent.",
            hint="Give apps a domain of their own, such as apps-example.net.",
            id="tessera.W002",
        )
    ]
