"""A route as options of httpx, and its failures in words."""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from agents.route.portal_route import PortalRoute

# X509_V_ERR_* of OpenSSL's x509_vfy.h: what failed, and what to do about it.
CERTIFICATE_ERRORS = {
    9: ("is not valid yet", "set this machine's clock"),
    10: ("has expired", "renew it on the portal's side, or set this machine's clock"),
    62: ("is for another name", "use an address that the certificate names"),
    64: ("is for another IP address", "use an address that the certificate names"),
}
UNKNOWN_AUTHORITY = (
    "is not trusted",
    "name the file of the authority's certificate: --ca-file FILE or TESSERA_CA_FILE",
)


@dataclass(frozen=True, slots=True)
class RouteFailure:
    """Why a portal did not answer."""

    why: str
    # What a person has to do; empty if waiting may be enough.
    mend: str = ""
    is_certificate: bool = False

    @property
    def sentence(self) -> str:
        return f"{self.why}. Mend: {self.mend}" if self.mend else self.why


def http_options(route: PortalRoute) -> dict[str, Any]:
    """Arguments of an httpx client. The environment's proxies are not believed: they are set for
    other programs, and whoever sets them could read where nodes call. Raises OSError if the file of
    authorities cannot be used; ssl.SSLError is one."""
    context = trust_context(route.ca_file)
    proxy = httpx.Proxy(route.proxy, ssl_context=context) if _is_tls(route.proxy) else route.proxy
    return {"verify": context, "proxy": proxy or None, "trust_env": False}


def trust_context(ca_file: Path | None) -> ssl.SSLContext:
    """Trusts the authorities of the file alone; without one those of the system, or on a system
    that has none those that the package certifi brings. Raises OSError."""
    if ca_file is not None:
        return ssl.create_default_context(cafile=str(ca_file))
    # httpx brings certifi's.
    return ssl.create_default_context() if _has_system_authorities() else httpx.create_ssl_context()


def failure_of(error: Exception, address: str, route: PortalRoute) -> RouteFailure:
    """`error`: what httpx raised for a call to the address."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            what, mend = CERTIFICATE_ERRORS.get(cause.verify_code, UNKNOWN_AUTHORITY)
            why = f"the certificate of {address} {what} ({cause.verify_message})"
            return RouteFailure(why, mend, is_certificate=True)
    words = str(error) or type(error).__name__
    if not route.proxy:
        return RouteFailure(f"{address}: {words}")
    why = f"{address} through the proxy {route.proxy_name}: {words}"
    if not isinstance(error, httpx.ProxyError) or not words.startswith("4"):
        return RouteFailure(why)
    if words.startswith("407"):
        return RouteFailure(why, "set TESSERA_PROXY to its URL with user and password")
    return RouteFailure(why, "let the proxy admit this node to that address, or set another")


def _is_tls(proxy: str) -> bool:
    return urlsplit(proxy).scheme == "https"


def _has_system_authorities() -> bool:
    paths = ssl.get_default_verify_paths()
    return bool(paths.cafile) or bool(paths.capath and any(Path(paths.capath).iterdir()))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
