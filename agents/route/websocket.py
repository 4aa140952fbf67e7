"""A route as options of a WebSocket, as `connection` gives those of calls."""

from typing import Any
from urllib.parse import urlsplit

from agents.route.connection import trust_context
from agents.route.portal_route import PortalRoute


def websocket_options(route: PortalRoute, address: str) -> dict[str, Any]:
    """Arguments of `websockets.connect` for one address of the portal. As for other calls, the
    environment's proxies are not believed. Raises OSError if the file of authorities cannot be
    used."""
    options: dict[str, Any] = {"proxy": route.proxy or None}
    if urlsplit(address).scheme == "https":
        options["ssl"] = trust_context(route.ca_file)
    if urlsplit(route.proxy).scheme == "https":
        options["proxy_ssl"] = trust_context(route.ca_file)
    return options


def websocket_url(address: str, path: str) -> str:
    """`address`: that of the portal, by http:// or https://."""
    return "ws" + address.removeprefix("http") + path
