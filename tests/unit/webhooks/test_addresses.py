"""Webhooks reach public addresses, and networks that the platform names; nothing else."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress

import pytest

from portal.errors import Refused
from portal.webhooks.addresses import is_reachable, parse_networks, resolve_target
from portal.webhooks.secrets import signature
from portal.webhooks.values import RETRY_DELAYS, retry_delay

PUBLIC = ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"]
INNER = [
    "127.0.0.1",
    "127.8.8.8",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "198.18.0.1",
    "192.0.2.1",
    "224.0.0.1",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fc00::1",
    "fd12:3456::1",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b:1::a00:1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "::7f00:1",
]


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_is_reached(text):
    assert is_reachable(ipaddress.ip_address(text), ())
    assert resolve_target("https://hooks.example.org/x", (), lambda *_: [text]).address == text


@pytest.mark.parametrize("text", INNER)
def test_an_inner_address_is_refused_whatever_it_is_called(text):
    assert not is_reachable(ipaddress.ip_address(text), ())
    with pytest.raises(Refused) as refused:
        resolve_target("https://hooks.example.org/x", (), lambda *_: [text])
    assert (refused.value.code, refused.value.field) == ("address_forbidden", "url")


def test_one_inner_address_among_public_ones_is_enough_to_refuse():
    with pytest.raises(Refused):
        resolve_target("https://hooks.example.org/", (), lambda *_: [PUBLIC[0], "10.0.0.1"])


def test_a_named_network_is_reached_also_without_tls():
    named = parse_networks("10.20.0.0/16, fd00:1::/32")
    assert resolve_target("http://ci.local/", named, lambda *_: ["10.20.3.4"]).port == 80
    assert is_reachable(ipaddress.ip_address("::ffff:10.20.3.4"), named)
    assert not is_reachable(ipaddress.ip_address("10.21.0.1"), named)
    with pytest.raises(Refused) as refused:
        resolve_target("http://hooks.example.org/", named, lambda *_: [PUBLIC[0]])
    assert refused.value.code == "url_invalid"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://example.org/",
        "file:///etc/passwd",
        "https://",
        "https:///x",
        "example.org/x",
        "https://user:pw@example.org/",
        "https://example.org@10.0.0.1/",
        "https://example.org/#x",
        "https://example.org:0/",
        "https://example.org:99999/",
        "https://[::1/",
        "https://exa mple.org/",
        "https://example.org/\n",
        "https://example.org\\@10.0.0.1/",
        "https://ex\u0430mple.org/",
        "https://example.org/" + "x" * 500,
    ],
)
def test_what_is_no_plain_https_address_is_refused(url):
    with pytest.raises(Refused) as refused:
        resolve_target(url, (), lambda *_: [PUBLIC[0]])
    assert refused.value.code == "url_invalid"


def test_a_name_without_an_address_is_refused():
    def nowhere(host: str, port: int) -> list[str]:
        raise OSError

    with pytest.raises(Refused) as refused:
        resolve_target("https://nowhere.example.org/", (), nowhere)
    assert refused.value.code == "host_unknown"


def test_a_signature_is_that_of_the_timestamp_and_the_body():
    told = signature("secret", 1_700_000_000, b'{"id": 1}')
    expected = hmac.new(b"secret", b'1700000000.{"id": 1}', hashlib.sha256).hexdigest()
    assert told == f"v1={expected}"
    assert signature("secret", 1_700_000_001, b'{"id": 1}') != told
    assert signature("other", 1_700_000_000, b'{"id": 1}') != told


def test_waits_grow_and_end():
    waits = [retry_delay(tries) for tries in range(1, len(RETRY_DELAYS) + 2)]
    assert waits[:-1] == sorted(RETRY_DELAYS) and waits[-1] is None
