"""A call that does not pass Django's middleware: its types, and what its scope tells."""

import ipaddress
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from django.conf import settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def header(scope: Mapping[str, Any], name: str) -> str:
    """The first header of that name, or ""."""
    wanted = name.lower().encode()
    for key, value in scope["headers"]:
        if key == wanted:
            return str(value.decode("latin-1"))
    return ""


def is_over_tls(scope: Mapping[str, Any]) -> bool:
    """Whether the caller speaks TLS, with this process or with the proxy before it."""
    if scope.get("scheme") in ("https", "wss"):
        return True
    name, https = settings.SECURE_PROXY_SSL_HEADER or ("", "")
    return bool(name) and header(scope, name.removeprefix("HTTP_").replace("_", "-")) == https


def is_private(scope: Mapping[str, Any]) -> bool:
    """Whether nobody on the way could read it: it came by TLS or from this machine, or pages are
    not redirected to HTTPS either."""
    if not settings.SECURE_SSL_REDIRECT or scope.get("scheme") in ("https", "wss"):
        return True
    name, https = settings.SECURE_PROXY_SSL_HEADER or ("", "https")
    scheme = header(scope, name.removeprefix("HTTP_").replace("_", "-"))
    is_proxied = bool(scheme or header(scope, "x-forwarded-for"))
    peer = scope.get("client") or ("",)
    return scheme == https if is_proxied else _is_loopback(str(peer[0]))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
