"""Which addresses a webhook may reach: public ones, and networks that the platform allows.

Checked when an endpoint is registered, and again for the address that is connected to, because the
name may resolve to something else by then.
"""

import ipaddress
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from agents.contract.message import Message
from portal.error_codes import ErrorCode
from portal.errors import Refused
from portal.webhooks.models import MAX_URL

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolver = Callable[[str, int], list[str]]
# IPv4 addresses written inside IPv6 ones by translators.
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# The allocated part of IPv6; everything else is for special use.
GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
NAT64_LOCAL = ipaddress.IPv6Network("64:ff9b:1::/48")


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """A checked URL, and the address to connect to."""

    scheme: str
    host: str
    port: int
    path: str
    address: str


def parse_networks(text: str) -> tuple[Network, ...]:
    """The networks of a comma-separated list. Raises ValueError."""
    return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())


def resolve_host(host: str, port: int) -> list[str]:
    """The addresses of a host name. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def resolve_target(
    url: str, allowed_networks: Iterable[Network], look_up: Resolver = resolve_host
) -> WebhookTarget:
    """Check a URL and resolve it. Every address of its name must be allowed: any may be used.

    Raises Refused(url_invalid, host_unknown, address_forbidden).
    """
    scheme, host, port, path = _parts(url)
    try:
        found = [_address(text) for text in look_up(host, port)]
    except (OSError, UnicodeError) as wrong:
        sentence = Message("No address was found for %(host)s", host=host)
        raise Refused(ErrorCode.HOST_UNKNOWN, sentence, "url") from wrong
    allowed_networks = tuple(allowed_networks)
    if not found or not all(is_reachable(address, allowed_networks) for address in found):
        sentence = Message(
            "%(host)s is not a public address. Webhooks reach only public addresses", host=host
        )
        raise Refused(ErrorCode.ADDRESS_FORBIDDEN, sentence, "url")
    if scheme == "http" and not all(_is_in(address, allowed_networks) for address in found):
        why = "Use https. Without it, anyone on the way can read and change the message"
        raise Refused(ErrorCode.URL_INVALID, why, "url")
    return WebhookTarget(scheme, host, port, path, str(found[0]))


def is_reachable(address: Address, allowed_networks: Iterable[Network]) -> bool:
    """True for public addresses and allowed networks, also if wrapped in an IPv6 address."""
    inner = _wrapped(address)
    if inner is not None:
        return is_reachable(inner, allowed_networks)
    if _is_in(address, allowed_networks):
        return True
    if isinstance(address, ipaddress.IPv6Address) and address not in GLOBAL_UNICAST:
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _is_in(address: Address, named: Iterable[Network]) -> bool:
    return any(address.version == n.version and address in n for n in named)


def _wrapped(address: Address) -> Address | None:
    if not isinstance(address, ipaddress.IPv6Address):
        return None
    if address in NAT64 or address in NAT64_LOCAL:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.teredo:
        return address.teredo[1]
    return address.ipv4_mapped or address.sixtofour


def _address(text: str) -> Address:
    """Parse an address, dropping the zone of a link-local one."""
    return ipaddress.ip_address(text.partition("%")[0])


def _parts(url: str) -> tuple[str, str, int, str]:
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise _invalid(Message("A URL has at most %(n)s characters and no spaces", n=MAX_URL))
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as wrong:
        raise _invalid("This is not a URL. Enter one such as https://host/path") from wrong
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise _invalid("Enter a URL such as https://host/path")
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise _invalid(
            "A URL must not contain a user name or password. Messages are signed instead"
        )
    if parts.fragment or "\\" in url:
        raise _invalid("A URL must not contain # or \\")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    default = 443 if parts.scheme == "https" else 80
    if port == 0:
        raise _invalid("Port 0 is not valid")
    return parts.scheme, parts.hostname, port or default, path


def _invalid(sentence: Message | str) -> Refused:
    return Refused(ErrorCode.URL_INVALID, sentence, "url")
