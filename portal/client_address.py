"""The address that a call comes from: the one place that decides what to believe of
X-Forwarded-For.

The portal's server, uvicorn, is started with `--no-proxy-headers`: it passes the peer of the
connection on as it is. Behind `TESSERA_TRUSTED_PROXIES` proxies, each adds the address that it saw
to the header, so the last of them are true and what stands before them is a caller's own claim.
Everything else reads the result: limits, sessions, audit lines, the agents' endpoint.
"""

import ipaddress
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from functools import cache
from inspect import iscoroutinefunction
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

HEADER = "HTTP_X_FORWARDED_FOR"
_now: ContextVar[str] = ContextVar("client_address", default="")

log = logging.getLogger(__name__)

Sync = Callable[[HttpRequest], HttpResponseBase]
Async = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


def client_address() -> str:
    """The address of the current request's caller; empty outside one and behind a Unix socket."""
    return _now.get()


def believed_address(peer: str, forwarded: str, proxies: int) -> str:
    """The caller's address: `peer`, or with `proxies` the entry that the outermost of them added.

    A call with fewer entries, or with one that is no address, did not come through all of them.
    """
    hops = [hop.strip() for hop in forwarded.split(",")] if forwarded else []
    if forwarded and not proxies:
        _warn_ignored()
    if proxies and len(hops) >= proxies and (address := _address(hops[-proxies])):
        return address
    return _address(peer)


def scope_address(scope: MutableMapping[str, Any]) -> str:
    """The same for a call that does not pass Django's middleware."""
    peer = scope.get("client")
    headers = scope.get("headers", ())
    forwarded = ",".join(v.decode("latin-1") for k, v in headers if k == b"x-forwarded-for")
    return believed_address(str(peer[0]) if peer else "", forwarded, _proxies())


def address_network(address: str) -> str:
    """The address to count by: of IPv6, the network of 64 bits that one machine may have."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    return str(ipaddress.ip_network((found, 64), strict=False))


def set_client_address(address: str) -> None:
    """For a call that does not pass the middleware; ends with the call's own task."""
    _now.set(address)


@sync_and_async_middleware
def client_address_middleware(get_response: Any) -> Sync | Async:
    """Puts the believed address into REMOTE_ADDR and takes the header away from everybody."""

    async def async_middleware(request: HttpRequest) -> HttpResponseBase:
        # Not reset: a streamed response continues in this request's own task.
        _now.set(_believe(request))
        response: HttpResponseBase = await get_response(request)
        return response

    def sync_middleware(request: HttpRequest) -> HttpResponseBase:
        before = _now.set(_believe(request))
        try:
            response: HttpResponseBase = get_response(request)
            return response
        finally:
            _now.reset(before)

    return async_middleware if iscoroutinefunction(get_response) else sync_middleware


def _believe(request: HttpRequest) -> str:
    peer, forwarded = request.META.get("REMOTE_ADDR", ""), request.META.pop(HEADER, "")
    address = believed_address(peer, forwarded, _proxies())
    request.META["REMOTE_ADDR"] = address
    # Django makes it anew without the header.
    request.__dict__.pop("headers", None)
    return address


@cache
def _warn_ignored() -> None:
    """Once in each process."""
    log.warning(
        "X-Forwarded-For is ignored: behind a proxy, set TESSERA_TRUSTED_PROXIES to the number of "
        "proxies, or all people count as one address"
    )


def _proxies() -> int:
    return int(settings.PLATFORM.trusted_proxies)


def _address(text: str) -> str:
    """The IP address in `text`, without a port or an IPv4-mapped prefix; empty if it is none."""
    text = text.strip().removeprefix("[").partition("]")[0]
    if text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return ""
    return str(getattr(found, "ipv4_mapped", None) or found)
