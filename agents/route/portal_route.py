"""How a node reaches its portal, as values, and what is wrong with them. Reads no network."""

from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import SplitResult, urlsplit


@dataclass(frozen=True, slots=True)
class PortalRoute:
    """The way to one portal."""

    # Of the same portal, in the order in which they are tried; without a slash at the end.
    addresses: tuple[str, ...]
    # The certificate authorities to trust, as PEM. None: those of the system.
    ca_file: Path | None = None
    # Its URL, which may have a user and a password. Empty: none, whatever the environment has.
    proxy: str = field(default="", repr=False)

    @property
    def proxy_name(self) -> str:
        """The proxy without its user and password, for people and logs."""
        parts = urlsplit(self.proxy)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def address_problem(url: str, *, allow_plain_http: bool, is_proxied: bool = False) -> str:
    """Why the agent must not call this address; empty if it may.

    Over plain HTTP, anybody on the way reads the node's token and the environment of its jobs, and
    can give the node work. Loopback has nobody on the way, but for a proxy's, which is elsewhere.
    """
    parts = _parsed(url)
    if parts is None:
        return f"{url} is not the address of a portal, such as https://gpu.example.org."
    is_private = _is_loopback(parts.hostname or "") and not is_proxied
    if parts.scheme == "https" or allow_plain_http or is_private:
        return ""
    return (
        f"{url} is plain HTTP: the node's token and its jobs would be readable on the way. Use "
        "https://, or --allow-plain-http in a network that nobody else can read."
    )


def proxy_problem(proxy: str) -> str:
    """Why it cannot be a proxy, without naming it: it may have a password. Empty if it can."""
    if proxy and _parsed(proxy) is None:
        return "The proxy is not a URL such as http://proxy.example:3128: --proxy, TESSERA_PROXY."
    return ""


def has_password(proxy: str) -> bool:
    return "@" in urlsplit(proxy).netloc


def _parsed(url: str) -> SplitResult | None:
    """None if it is not the URL of an HTTP server."""
    try:
        parts = urlsplit(url)
        # Reading the port checks it.
        host = (parts.hostname or "") if parts.port != 0 else ""
    except ValueError:
        return None
    return parts if host and parts.scheme in ("http", "https") else None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
