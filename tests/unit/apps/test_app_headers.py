"""What passes between callers and apps, and what does not."""

import base64
import json

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from portal.apps.caller_header import caller_header, public_keys
from portal.apps.headers import (
    bearer_token,
    cookie_value,
    has_two_framings,
    request_headers,
    response_headers,
)

HIDDEN = ("tessera-app", "sessionid")


def sent(*headers: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    return request_headers(headers, added=[(b"host", b"app")], hidden_cookies=HIDDEN)


def test_an_app_gets_neither_cookies_nor_tokens_of_the_portal():
    assert sent(
        (b"cookie", b"a=1; tessera-app=x; sessionid=y; b=2"),
        (b"cookie", b"tessera-app=x"),
        (b"authorization", b"Bearer tsr_abc"),
    ) == [(b"host", b"app"), (b"cookie", b"a=1; b=2")]
    assert sent((b"authorization", b"Basic abc")) == [
        (b"host", b"app"),
        (b"authorization", b"Basic abc"),
    ]


def test_headers_of_one_connection_and_claims_about_the_way_end_here():
    dropped = [
        (b"connection", b"close, X-One"),
        (b"x-one", b"1"),
        (b"keep-alive", b"5"),
        (b"te", b"trailers"),
        (b"upgrade", b"h2c"),
        (b"transfer-encoding", b"chunked"),
        (b"content-length", b"5"),
        (b"expect", b"100-continue"),
        (b"host", b"other"),
        (b"x-forwarded-for", b"1.2.3.4"),
        (b"forwarded", b"for=1.2.3.4"),
        (b"x-tessera-caller", b"forged"),
        (b"x_tessera_caller", b"forged"),
    ]
    assert sent(*dropped, (b"accept", b"*/*")) == [(b"host", b"app"), (b"accept", b"*/*")]


def test_an_app_speaks_for_its_own_host_alone():
    answer = [
        (b"Content-Type", b"text/html"),
        (b"Connection", b"keep-alive"),
        (b"Clear-Site-Data", b'"cookies"'),
        (b"Alt-Svc", b'h2="evil:443"'),
        (b"Set-Cookie", b"a=1; Domain=example; Path=/"),
        (b"Set-Cookie", b"tessera-app=stolen"),
    ]
    assert response_headers(answer, hidden_cookies=HIDDEN) == [
        (b"content-type", b"text/html"),
        (b"set-cookie", b"a=1; Path=/"),
    ]


def test_a_length_beside_another_framing_is_not_passed_on():
    answer = [(b"Transfer-Encoding", b"chunked"), (b"Content-Length", b"5")]
    assert response_headers(answer, hidden_cookies=()) == []
    assert has_two_framings([(b"content-length", b"5"), (b"transfer-encoding", b"chunked")])
    assert has_two_framings([(b"content-length", b"5"), (b"content-length", b"6")])
    assert not has_two_framings([(b"content-length", b"5")])


def test_a_secret_is_read_where_it_stands_alone():
    assert bearer_token([(b"authorization", b"Bearer tsr_abc")]) == "tsr_abc"
    assert bearer_token([(b"authorization", b"Bearer other")]) == ""
    assert bearer_token([(b"authorization", b"Bearer tsr_a tsr_b")]) == ""
    assert cookie_value([(b"cookie", b"xtessera-app=1; tessera-app=2")], "tessera-app") == "2"


def test_an_app_can_check_who_calls_with_the_public_key():
    caller = {"username": "olga", "app": "web", "place": "J-1", "token": "tsa_0123"}
    value = caller_header(secret_key="k", host="web--j1.apps", now=1_000, **caller)
    (key,) = json.loads(public_keys(["k"]))["keys"]
    head, claims, signature = value.split(b".")
    raw = Ed25519PublicKey.from_public_bytes(decoded(key["x"].encode()))
    raw.verify(decoded(signature), head + b"." + claims)
    assert json.loads(decoded(head))["kid"] == key["kid"]
    assert json.loads(decoded(claims)) == {
        **{"aud": "web--j1.apps", "sub": "olga", "app": "web", "job": "J-1"},
        **{"token": "tsa_0123", "iat": 1_000, "exp": 1_060},
    }


def decoded(text: bytes) -> bytes:
    return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
