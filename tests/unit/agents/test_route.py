"""The way to the portal: arguments, several addresses, certificates, a proxy."""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from agents.contract.calls import EnrolRequest
from agents.contract.errors import ContractError, ContractErrorCode
from agents.portal.client import PortalBarred, PortalClient, PortalUnreachable
from agents.portal.sync import enrol
from agents.route.connection import trust_context
from agents.route.portal_route import PortalRoute, address_problem
from agents.route.reading import read_route
from agents.settings import parser, settings_from
from agents.state.identity import AgentIdentity
from tests.support.certificates import Pair, pair
from tests.support.relays import connect_proxy, json_server, tls_front

FIRST, SECOND = "https://a.example", "https://b.example"
REQUEST = EnrolRequest("gpu01", "t", "k", "m")


@pytest.fixture(autouse=True)
def only_the_tests_own_variables(monkeypatch):
    for name in ("PORTAL_URL", "CA_FILE", "PROXY", "JOIN_TOKEN", "AGENT_ALLOW_PLAIN_HTTP"):
        monkeypatch.delenv(f"TESSERA_{name}", raising=False)


def route_of(*words: str) -> PortalRoute:
    return settings_from(parser().parse_args(["run", *words])).route


def refusal(*words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        route_of(*words)
    return str(ended.value)


def test_addresses_come_by_repeated_arguments_or_with_commas(monkeypatch):
    words = ("--portal", f"{FIRST}/", "--portal", SECOND, "--portal", FIRST)
    assert route_of(*words) == PortalRoute((FIRST, SECOND))
    monkeypatch.setenv("TESSERA_PORTAL_URL", f"{SECOND}, {FIRST}")
    assert route_of() == PortalRoute((SECOND, FIRST))
    assert route_of("--portal", FIRST).addresses == (FIRST,)


def test_a_proxy_is_that_of_tessera_and_never_that_of_the_environment(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://other.example:3128")
    assert route_of("--portal", FIRST).proxy == ""
    monkeypatch.setenv("TESSERA_PROXY", "http://me:word@proxy.example:3128")
    route = route_of("--portal", FIRST)
    assert route.proxy == "http://me:word@proxy.example:3128"
    assert route.proxy_name == "http://proxy.example:3128" and "word" not in repr(route)
    assert route_of("--portal", FIRST, "--proxy", "http://p:1").proxy == "http://p:1"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--proxy", "proxy.example:3128"), "The proxy is not a URL"),
        (("--proxy", "socks5://proxy.example"), "The proxy is not a URL"),
        (("--proxy", "http://me:word@proxy.example"), "set TESSERA_PROXY instead"),
        (("--ca-file", "/nowhere/ca.pem"), "Set --ca-file or TESSERA_CA_FILE to a PEM file"),
        (("--ca-file", __file__), "is not a file of certificates"),
        (("--portal", "http://b.example"), "http://b.example is plain HTTP"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(words, why):
    sentence = refusal("--portal", FIRST, *words)
    assert why in sentence and "word" not in sentence.replace("password", "")


def test_a_proxys_loopback_is_not_this_machines():
    local = "http://127.0.0.1:8000"
    assert address_problem(local, allow_plain_http=False) == ""
    assert "plain HTTP" in address_problem(local, allow_plain_http=False, is_proxied=True)


def test_a_system_without_authorities_gets_those_of_certifi(monkeypatch, tmp_path):
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    nowhere = ssl.get_default_verify_paths()._replace(cafile=None, capath=str(tmp_path))
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: nowhere)
    assert trust_context(None).cert_store_stats()["x509_ca"] > 50


class Addresses:
    """A portal at two addresses; those in `away` do not answer."""

    def __init__(self, *away: str) -> None:
        self.away, self.calls = set(away), []

    def answer(self, request: httpx.Request) -> httpx.Response:
        address = f"https://{request.url.host}"
        self.calls.append(address)
        if address in self.away:
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json={"node_id": "n-1"})


def test_an_address_that_does_not_answer_is_left_for_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr("agents.portal.sync.MIN_PAUSE_SECONDS", 0.0)
    portal, identity = Addresses(FIRST), AgentIdentity(tmp_path)
    client = PortalClient(PortalRoute((FIRST, SECOND)), httpx.MockTransport(portal.answer))
    asyncio.run(enrol(client, identity, "gpu01", "ticket"))
    assert portal.calls == [FIRST, SECOND] and identity.node_id == "n-1"
    portal.away = {SECOND}
    with pytest.raises(PortalUnreachable):
        asyncio.run(client.enrol(REQUEST))
    asyncio.run(client.enrol(REQUEST))
    asyncio.run(client.enrol(REQUEST))
    assert portal.calls[2:] == [SECOND, FIRST, FIRST], "it stays where it was answered"


def test_calls_that_fail_together_leave_an_address_once():
    both_are_open = asyncio.Barrier(2)

    async def fail(request):
        await both_are_open.wait()
        raise httpx.ConnectError("refused")

    async def both(client):
        calls = (client.enrol(REQUEST), client.enrol(REQUEST))
        return await asyncio.gather(*calls, return_exceptions=True)

    client = PortalClient(PortalRoute((FIRST, SECOND)), httpx.MockTransport(fail))
    assert [type(failure) for failure in asyncio.run(both(client))] == [PortalUnreachable] * 2
    assert client.address == SECOND


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(502, text="bad gateway"),
        httpx.Response(200, text="<html>sign in to the hotel's network</html>"),
        httpx.Response(503, json=ContractError(ContractErrorCode.UNAVAILABLE, "busy").body()),
    ],
)
def test_an_answer_that_is_not_the_portals_counts_as_none(answer):
    client = PortalClient(PortalRoute((FIRST, SECOND)), httpx.MockTransport(lambda _: answer))
    with pytest.raises(PortalUnreachable):
        asyncio.run(client.enrol(REQUEST))
    assert client.address == SECOND


def test_a_refusal_is_the_portals_answer_at_any_address():
    wrong = ContractError(ContractErrorCode.JOIN_TOKEN_INVALID, "wrong", "join_token")
    answer = httpx.Response(wrong.status, json=wrong.body())
    client = PortalClient(PortalRoute((FIRST, SECOND)), httpx.MockTransport(lambda _: answer))
    with pytest.raises(ContractError):
        asyncio.run(client.enrol(REQUEST))
    assert client.address == FIRST


ENROLLED = {"node_id": "n-1"}
REFUSED = {"error": {"code": "not_found", "sentence": "", "field": ""}}


@pytest.fixture
def plain_port():
    """Enrols everybody; refuses any other call as a portal does."""
    with json_server({"POST": (200, ENROLLED), "GET": (404, REFUSED)}) as port:
        yield port


@pytest.fixture(scope="module")
def authority() -> Pair:
    return pair("an authority")


@pytest.fixture
def ca_file(tmp_path, authority) -> Path:
    path = tmp_path / "ca.pem"
    path.write_text(authority.certificate)
    return path


@contextmanager
def a_front(folder, certificate, plain_port):
    with tls_front(folder, certificate, plain_port) as port:
        yield f"https://127.0.0.1:{port}"


def call(route: PortalRoute) -> str:
    """The node's id from one enrolment on the real wire."""

    async def scenario():
        client = PortalClient(route)
        try:
            return (await client.enrol(REQUEST)).node_id
        finally:
            await client.close()

    return asyncio.run(scenario())


def test_a_private_authority_is_trusted_by_its_file(tmp_path, authority, ca_file, plain_port):
    with a_front(tmp_path, pair("127.0.0.1", authority), plain_port) as url:
        assert call(PortalRoute((url,), ca_file)) == "n-1"
        with pytest.raises(PortalBarred, match=r"is not trusted .*--ca-file FILE or TESSERA_CA_"):
            call(PortalRoute((url,)))


def test_the_file_replaces_the_authorities_of_the_system(tmp_path, ca_file, authority, plain_port):
    other = tmp_path / "other.pem"
    other.write_text(pair("another authority").certificate)
    front = a_front(tmp_path, pair("127.0.0.1", authority), plain_port)
    with front as url, pytest.raises(PortalBarred, match="is not trusted"):
        call(PortalRoute((url,), other))


def test_a_certificate_for_another_name_is_refused_with_other_words(
    tmp_path, authority, ca_file, plain_port
):
    front = a_front(tmp_path, pair("127.0.0.2", authority), plain_port)
    with front as url, pytest.raises(PortalBarred, match="is for another IP address"):
        call(PortalRoute((url,), ca_file))


def test_a_certificate_that_is_not_trusted_is_an_error_in_the_log(
    tmp_path, authority, plain_port, caplog, monkeypatch
):
    """The address beside it that is trusted is used."""
    monkeypatch.setattr("agents.portal.sync.MIN_PAUSE_SECONDS", 0.0)

    async def scenario(url):
        client = PortalClient(PortalRoute((url, f"http://127.0.0.1:{plain_port}")))
        await enrol(client, AgentIdentity(tmp_path / "node"), "gpu01", "ticket")
        await client.close()

    (tmp_path / "node").mkdir()
    with (
        caplog.at_level(logging.INFO),
        a_front(tmp_path, pair("127.0.0.1", authority), plain_port) as url,
    ):
        asyncio.run(scenario(url))
    (record,) = [r for r in caplog.records if r.name == "agents.portal.sync"]
    assert (record.levelname, record.getMessage()) == ("ERROR", "portal_barred")
    assert f"the certificate of {url} is not trusted" in record.why and "--ca-file" in record.why


def test_calls_go_through_the_proxy_which_may_demand_a_password(
    tmp_path, authority, ca_file, plain_port
):
    """Nobody but the proxy knows the portal's name."""
    url, name = "https://portal.example", "portal.example:443"
    front = tls_front(tmp_path, pair("portal.example", authority), plain_port)
    with front as port, connect_proxy({name: port}, "me:word") as proxy:
        place = f"127.0.0.1:{proxy.port}"
        route = PortalRoute((url,), ca_file, f"http://me:word@{place}")
        assert call(route) == "n-1" and proxy.targets == [name]
        with pytest.raises(PortalBarred) as refused:
            call(PortalRoute((url,), ca_file, f"http://me:secret@{place}"))
        sentence = str(refused.value)
        assert f"through the proxy http://{place}: 407" in sentence and "secret" not in sentence
        assert "TESSERA_PROXY" in sentence
        other = PortalRoute(("https://elsewhere.example",), ca_file, route.proxy)
        with pytest.raises(PortalBarred, match=r"403 Forbidden.*let the proxy admit"):
            call(other)
        (reading,) = read_route(route)
        assert reading.failure is None and reading.expires_at is not None


def test_a_proxy_that_is_away_is_waited_for(ca_file):
    route = PortalRoute((FIRST,), ca_file, "http://127.0.0.1:9")
    with pytest.raises(PortalUnreachable, match=r"through the proxy http://127\.0\.0\.1:9") as away:
        call(route)
    assert not isinstance(away.value, PortalBarred)
