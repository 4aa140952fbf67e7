"""Finding 2.7 of the security review: a caller's own X-Forwarded-For changes no limit."""

from dataclasses import replace
from pathlib import Path

import pytest
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.core.cache import cache
from django.core.checks import run_checks
from django.test import Client

from portal.agentapi.http import caller_address
from portal.client_address import address_network, believed_address, scope_address
from tests.support.rows import a_user

ROOT = Path(__file__).resolve().parents[2]
PEER = "192.0.2.7"
FIRST, LAST = "203.0.113.77", "198.51.100.3"


@pytest.fixture(autouse=True)
def nothing_was_tried_before():
    cache.clear()


@pytest.fixture
def behind_proxies(settings):
    def behind(number: int) -> None:
        settings.PLATFORM = replace(settings.PLATFORM, trusted_proxies=number)

    return behind


@pytest.mark.parametrize(
    ("forwarded", "proxies", "expected"),
    [
        ("", 0, PEER),
        (FIRST, 0, PEER),
        (FIRST, 1, FIRST),
        (f"{FIRST}, {LAST}", 1, LAST),
        (f"1.1.1.1, {FIRST}, {LAST}", 2, FIRST),
        # It did not come through both proxies.
        (FIRST, 2, PEER),
        ("", 1, PEER),
        ("unknown", 1, PEER),
        ("<script>", 1, PEER),
        (f"{FIRST}:4711", 1, FIRST),
        ("[2001:db8::1]:4711", 1, "2001:db8::1"),
        ("::ffff:203.0.113.77", 1, FIRST),
    ],
)
def test_only_what_trusted_proxies_added_is_believed(forwarded, proxies, expected):
    assert believed_address(PEER, forwarded, proxies) == expected


def test_agents_calls_are_counted_by_the_same_address(behind_proxies):
    scope = {"client": (PEER, 1), "headers": [(b"x-forwarded-for", FIRST.encode())]}
    assert scope_address(scope) == caller_address(scope) == PEER
    behind_proxies(1)
    assert scope_address(scope) == caller_address(scope) == FIRST
    scope["headers"].append((b"x-forwarded-for", b"2001:db8:1:2:3::4"))
    assert scope_address(scope) == "2001:db8:1:2:3::4"
    assert caller_address(scope) == address_network("2001:db8:1:2::") == "2001:db8:1:2::/64"
    assert scope_address({"client": None, "headers": []}) == ""


@pytest.mark.django_db
def test_a_forged_header_does_not_avoid_the_limit_of_an_address():
    a_user("olga")
    shown = []
    for number in range(40):
        answer = Client().post(
            "/sign-in/",
            {"username": f"stranger-{number}", "password": "no"},
            headers={"X-Forwarded-For": f"9.9.{number}.1"},
        )
        shown.append("Too many failed attempts" in answer.content.decode())
    assert shown == [False] * 30 + [True] * 10


@pytest.mark.django_db
def test_the_browsers_of_an_account_are_listed_with_their_true_address(behind_proxies):
    a_user("olga")
    right = {"username": "olga", "password": "pw"}
    for proxies, expected in ((0, "127.0.0.1"), (1, LAST)):
        behind_proxies(proxies)
        UserSession.objects.all().delete()
        Client().post("/sign-in/", right, headers={"X-Forwarded-For": f"{FIRST}, {LAST}"})
        assert UserSession.objects.get().ip == expected


def test_wherever_the_server_is_started_it_leaves_the_header_alone():
    starts = [
        path
        for pattern in ("Dockerfile", "docker-compose.yml", "docs/**/*.md", "portal/**/*.py")
        for path in ROOT.glob(pattern)
        if "portal.asgi:application" in path.read_text() and path.name != "test_client_address.py"
    ]
    assert {"Dockerfile", "demonstration.py"} <= {path.name for path in starts}
    assert [path for path in starts if "--no-proxy-headers" not in path.read_text()] == []


def test_compose_counts_its_proxy_and_the_deploy_check_finds_none(behind_proxies):
    assert "TESSERA_TRUSTED_PROXIES:-1" in (ROOT / "docker-compose.yml").read_text()
    behind_proxies(0)
    assert _is_missed()
    behind_proxies(1)
    assert not _is_missed()


def _is_missed():
    return "tessera.W001" in [check.id for check in run_checks(include_deployment_checks=True)]


def test_no_setting_reads_the_header_elsewhere():
    assert settings.ALLAUTH_TRUSTED_PROXY_COUNT == settings.REST_FRAMEWORK["NUM_PROXIES"] == 0
