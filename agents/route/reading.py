"""What one call to each address of a portal shows: an answer, its certificate, its clock."""

import email.utils
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx

from agents.contract.calls import HELLO_PATH
from agents.route.connection import RouteFailure, failure_of, http_options
from agents.route.portal_route import PortalRoute

TIMEOUT = httpx.Timeout(10, connect=5)


@dataclass(frozen=True, slots=True)
class AddressReading:
    """One address of a portal, as this machine finds it."""

    address: str
    # None if a portal answered.
    failure: RouteFailure | None = None
    # When its certificate ends; None over plain HTTP.
    expires_at: datetime | None = None
    # How far this machine's clock is ahead of the portal's, at least; negative if it is behind.
    # None if the portal named no time.
    clock_seconds: float | None = None


def read_route(
    route: PortalRoute,
    now: Callable[[], float] = time.time,
    transport: httpx.BaseTransport | None = None,
) -> tuple[AddressReading, ...]:
    """One reading for each address. `now`: this machine's clock. Raises OSError."""
    # A transport, which only tests pass, is not proxied.
    options = http_options(route) if transport is None else {"transport": transport}
    with httpx.Client(timeout=TIMEOUT, **options) as http:
        return tuple(_read(http, address, route, now) for address in route.addresses)


def _read(
    http: httpx.Client, address: str, route: PortalRoute, now: Callable[[], float]
) -> AddressReading:
    """The call is one that no portal serves: every version refuses it in the contract's form, and
    none counts it."""
    before = now()
    try:
        with http.stream("GET", address + HELLO_PATH, headers={"Cache-Control": "no-store"}) as got:
            after, expires_at = now(), _expires_at(got)
            got.read()
    except httpx.HTTPError as error:
        return AddressReading(address, failure_of(error, address, route))
    ahead = _clock_seconds(got.headers.get("Date", ""), before, after)
    failure = (
        None
        if _is_portal(got)
        else RouteFailure(
            f"{address} answered {got.status_code}, and not as a portal does",
            "check the address, and what stands in front of the portal",
        )
    )
    return AddressReading(address, failure, expires_at, ahead)


def _is_portal(response: httpx.Response) -> bool:
    try:
        return isinstance(response.json()["error"]["code"], str)
    except (ValueError, KeyError, TypeError):
        return False


def _expires_at(response: httpx.Response) -> datetime | None:
    stream: Any = response.extensions.get("network_stream")
    tls = stream.get_extra_info("ssl_object") if stream is not None else None
    certificate = tls.getpeercert() if tls is not None else None
    if not certificate:
        return None
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), UTC)


def _clock_seconds(date: str, before: float, after: float) -> float | None:
    """The portal wrote its time, in whole seconds, between our two readings of the clock: what
    these bounds leave open is not a difference."""
    try:
        portal = email.utils.parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None
    if before > portal + 1:
        return before - (portal + 1)
    return min(after - portal, 0.0)
