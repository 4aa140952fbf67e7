"""Checks of `manage.py check --deploy`: settings that a production portal needs."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register


@register(Tags.security, deploy=True)
def trusted_proxies_check(**_: Any) -> list[CheckMessage]:
    """A production portal stands behind a TLS proxy, so there is at least one."""
    if settings.PLATFORM.trusted_proxies:
        return []
    return [
        Warning(
            "TESSERA_TRUSTED_PROXIES is 0, so X-Forwarded-For is ignored and everybody behind the "
            "TLS proxy counts as one address.",
            hint="Set it to the number of proxies that add to X-Forwarded-For, usually 1.",
            id="tessera.W001",
        )
    ]
