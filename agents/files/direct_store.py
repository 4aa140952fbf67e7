"""The store itself, where the portal lets nodes use it: one request for each URL that it signed."""

import logging
import ssl
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx

from agents.contract.direct_transfer import ContentPart
from agents.route.connection import http_options
from agents.route.portal_route import PortalRoute

# A store that cannot be used from here is tried again after so long; until then all bytes go
# through the portal.
AWAY_SECONDS = 300.0
TIMEOUT = httpx.Timeout(60, connect=5)

log = logging.getLogger("agents.files.direct_store")


class StoreAway(Exception):
    """The store did not do it. The text names no URL: those are secrets."""


class DirectStore:
    """Thread-safe. Calls go the way of those to the portal: its authorities, its proxy. Plain HTTP
    is used only where that is how the portal is called, too."""

    def __init__(
        self,
        route: PortalRoute,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises OSError if the route's file of authorities cannot be used."""
        options = http_options(route) if transport is None else {"transport": transport}
        self._http = httpx.Client(timeout=TIMEOUT, follow_redirects=False, **options)
        self._schemes = {urlsplit(address).scheme for address in route.addresses} | {"https"}
        self._clock = clock
        self._lock = threading.Lock()
        self._away_until = float("-inf")

    @property
    def is_away(self) -> bool:
        return self._clock() < self._away_until

    def leave(self, why: str) -> None:
        """Send and fetch through the portal for a while."""
        with self._lock:
            is_news = not self.is_away
            self._away_until = self._clock() + AWAY_SECONDS
        if is_news:
            log.warning("store_away", extra={"why": why, "seconds": AWAY_SECONDS})

    def put(self, part: ContentPart, data: bytes) -> None:
        """Raises StoreAway."""
        self._check(part)
        try:
            answer = self._http.put(part.url, content=data)
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError) as error:
            raise _away(part, error) from None
        if not answer.is_success:
            raise StoreAway(f"{_host(part)} answered {answer.status_code}")

    def get(self, part: ContentPart) -> bytes:
        """All bytes of the part. Raises StoreAway."""
        self._check(part)
        data = bytearray()
        headers = {"Accept-Encoding": "identity"}
        try:
            with self._http.stream("GET", part.url, headers=headers) as answer:
                if answer.status_code != 200:
                    raise StoreAway(f"{_host(part)} answered {answer.status_code}")
                for piece in answer.iter_bytes():
                    data += piece
                    if len(data) > part.size:
                        break
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError) as error:
            raise _away(part, error) from None
        if len(data) != part.size:
            raise StoreAway(f"{_host(part)} has other bytes than the portal counts")
        return bytes(data)

    def _check(self, part: ContentPart) -> None:
        if part.url.partition(":")[0] not in self._schemes:
            raise StoreAway(
                f"{_host(part)} would be called by plain HTTP: set an https:// endpoint"
            )


def _away(part: ContentPart, error: Exception) -> StoreAway:
    """Without the error's own words, which may hold the URL."""
    return StoreAway(f"{_host(part)}: {type(error).__name__}")


def _host(part: ContentPart) -> str:
    try:
        return urlsplit(part.url).netloc.rpartition("@")[2] or "the store"
    except ValueError:
        return "the store"
