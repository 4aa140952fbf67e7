"""The way from the command to the portal on the real wire: a private authority, a proxy."""

from __future__ import annotations

from pathlib import Path

import pytest

from portal.cli.client import Client
from portal.cli.config import PortalAccess
from portal.cli.exit_codes import CommandFailed, ExitCode
from tests.support.certificates import Pair, pair
from tests.support.relays import connect_proxy, json_server, tls_front

NAME = "portal.example"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def no_proxies_of_this_machine(monkeypatch):
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="module")
def authority() -> Pair:
    return pair("an authority")


@pytest.fixture
def ca_file(tmp_path: Path, authority: Pair) -> str:
    path = tmp_path / "ca.pem"
    path.write_text(authority.certificate)
    return str(path)


@pytest.fixture
def front_port(tmp_path: Path, authority: Pair):
    """A portal with a certificate for its name."""
    with (
        json_server({"GET": (200, {"user": "olga"})}) as plain,
        tls_front(tmp_path, pair(NAME, authority), plain) as port,
    ):
        yield port


def never(_: float) -> None:
    raise AssertionError("it waits to try again")


def whoami(access: PortalAccess) -> str:
    return str(Client(access, pause=never).get("me")["user"])


def failure(access: PortalAccess) -> CommandFailed:
    with pytest.raises(CommandFailed) as failed:
        whoami(access)
    return failed.value


def test_a_proxy_and_a_private_authority_lead_to_the_portal(front_port, ca_file):
    """Nobody but the proxy knows the portal's name."""
    url = f"https://{NAME}"
    with connect_proxy({f"{NAME}:443": front_port}, "me:word") as proxy:
        place = f"127.0.0.1:{proxy.port}"
        mine = f"http://me:word@{place}"
        assert whoami(PortalAccess(url, "t", ca_file=ca_file, proxy=mine)) == "olga"
        assert proxy.targets == [f"{NAME}:443"]
        untrusted = failure(PortalAccess(url, "t", proxy=mine))
        assert untrusted.code == "certificate_untrusted"
        assert "--ca-file" in untrusted.next_command
        refused = failure(PortalAccess(url, "t", ca_file=ca_file, proxy=f"http://{place}"))
        assert (refused.code, refused.exit_code) == ("proxy_refused", ExitCode.DENIED)
        assert "407" in refused.sentence and "TESSERA_PROXY" in refused.next_command


def test_the_proxy_of_the_shell_is_used_where_tessera_has_none(front_port, ca_file, monkeypatch):
    with connect_proxy({f"{NAME}:443": front_port}) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        assert whoami(PortalAccess(f"https://{NAME}", "t", ca_file=ca_file)) == "olga"
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
        own = f"http://127.0.0.1:{proxy.port}"
        assert whoami(PortalAccess(f"https://{NAME}", "t", ca_file=ca_file, proxy=own)) == "olga"


@pytest.mark.parametrize(
    ("way", "code"),
    [
        ({"ca_file": "/nowhere/ca.pem"}, "ca_file_invalid"),
        ({"ca_file": __file__}, "ca_file_invalid"),
        ({"proxy": "proxy.example:3128"}, "proxy_invalid"),
        ({"proxy": "socks5://proxy.example"}, "proxy_invalid"),
    ],
)
def test_what_cannot_be_used_is_a_usage_error(way, code):
    found = failure(PortalAccess("https://portal.example", "t", **way))
    assert (found.code, found.exit_code) == (code, ExitCode.USAGE)
