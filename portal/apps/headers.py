"""Which headers pass between a caller and an app.

RFC 9110, 7.6.1: those of one connection end with it. What the portal says of a call replaces what
the caller claims, and nothing that opens the portal reaches an app.
"""

from collections.abc import Collection, Iterable, Iterator

Header = tuple[bytes, bytes]

HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade http2-settings".split()
)
# Written anew for the app, or answered by the server.
REWRITTEN = frozenset(b"host content-length expect forwarded x-real-ip".split())
# The prefixes of what only the portal says. Apps behind CGI read "_" as "-".
PORTALS_OWN = (b"x-forwarded-", b"x-tessera-")
# An app speaks for its own host alone: these act on every host of the domain, or on other servers.
BEYOND_ITS_HOST = frozenset(b"alt-svc clear-site-data".split())
# Of tokens for REST, which open no app, and of those for apps.
REST_TOKEN_PREFIX, APP_TOKEN_PREFIX = b"tsr_", b"tsa_"


def request_headers(
    headers: Iterable[Header], *, added: Iterable[Header], hidden_cookies: Collection[str]
) -> list[Header]:
    """What an app is sent: `added` first, then the caller's own without those above, without the
    named cookies and without a token of the portal."""
    given = list(headers)
    dropped = _named_by_connection(given) | HOP_BY_HOP | REWRITTEN
    sent = list(added)
    for name, value in given:
        spelled = name.lower().replace(b"_", b"-")
        if spelled in dropped or spelled.startswith(PORTALS_OWN) or _is_token(spelled, value):
            continue
        if spelled == b"cookie":
            value = _without_cookies(value, hidden_cookies)
            if not value:
                continue
        sent.append((name, value))
    return sent


def response_headers(headers: Iterable[Header], *, hidden_cookies: Collection[str]) -> list[Header]:
    """What a caller is sent of an app's headers. Cookies stay on the app's own host."""
    given = [(name.lower(), value) for name, value in headers]
    dropped = _named_by_connection(given) | HOP_BY_HOP | BEYOND_ITS_HOST
    if any(name == b"transfer-encoding" for name, _ in given):
        # RFC 9112, 6.3: the length is not the body's then.
        dropped |= {b"content-length"}
    return list(_with_own_cookies(given, dropped, hidden_cookies))


def bearer_token(headers: Iterable[Header]) -> str:
    """The token of the portal in `Authorization`, of either kind; empty without one."""
    for name, value in headers:
        if name == b"authorization" and _is_token(name, value):
            return value.split()[1].decode("latin-1")
    return ""


def cookie_value(headers: Iterable[Header], cookie: str) -> str:
    """Empty without such a cookie."""
    for name, value in headers:
        if name == b"cookie":
            for pair in value.split(b";"):
                key, _, text = pair.strip().partition(b"=")
                if key == cookie.encode():
                    return text.decode("latin-1")
    return ""


def has_two_framings(headers: Iterable[Header]) -> bool:
    """Whether two readers may see two ends of the body (RFC 9112, 6.3 and 11.2)."""
    names = [name for name, _ in headers if name in (b"content-length", b"transfer-encoding")]
    return len(names) > 1


def _named_by_connection(headers: Iterable[Header]) -> frozenset[bytes]:
    """The headers that `Connection` says are of this connection alone."""
    return frozenset(
        word.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for word in value.split(b",")
    )


def _is_token(name: bytes, value: bytes) -> bool:
    if name != b"authorization":
        return False
    words = value.split()
    return (
        len(words) == 2
        and words[0].lower() in (b"bearer", b"token")
        and words[1].startswith((REST_TOKEN_PREFIX, APP_TOKEN_PREFIX))
    )


def _without_cookies(value: bytes, hidden: Collection[str]) -> bytes:
    pairs = [pair.strip() for pair in value.split(b";") if pair.strip()]
    names = {name.encode() for name in hidden}
    return b"; ".join(pair for pair in pairs if pair.partition(b"=")[0].strip() not in names)


def _with_own_cookies(
    headers: Iterable[Header], dropped: Collection[bytes], hidden: Collection[str]
) -> Iterator[Header]:
    names = {name.encode() for name in hidden}
    for name, value in headers:
        if name in dropped:
            continue
        if name == b"set-cookie":
            pair, *attributes = value.split(b";")
            if pair.partition(b"=")[0].strip() in names:
                continue
            kept = [each for each in attributes if not _is_domain(each)]
            value = b";".join([pair, *kept])
        yield name, value


def _is_domain(attribute: bytes) -> bool:
    return attribute.partition(b"=")[0].strip().lower() == b"domain"
