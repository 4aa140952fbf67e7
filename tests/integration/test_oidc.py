"""Sign-in through the organisation: a real provider on loopback, honest or lying."""

import re
import time
from html import unescape
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from allauth.socialaccount.models import SocialAccount, SocialToken
from django.core.cache import cache
from django.test import Client

from portal.accounts.models import User
from portal.audit.models import AuditEntry
from portal.platform import platform_from
from portal.settings.sign_in import provider_apps
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, KEY, STRANGER, Running
from tests.support.rows import a_project, a_user

pytestmark = pytest.mark.django_db
START = "/sign-in/oidc/sso/"
PERSON = {
    "sub": "4711",
    "preferred_username": "olga",
    "email": "olga@example.org",
    "name": "Olga Ivanova",
}


@pytest.fixture(scope="module")
def server():
    with Running() as provider:
        yield provider


@pytest.fixture
def provider(server, settings):
    """An honest provider that the portal is configured for through its environment."""
    cache.clear()
    for name, honest in (("claims", {}), ("told", {}), ("discovery", {}), ("refuses", "")):
        setattr(server, name, honest)
    server.person, server.algorithm = dict(PERSON), "RS256"
    server.key = KEY
    told = {
        "TESSERA_OIDC_ISSUER": server.url,
        "TESSERA_OIDC_CLIENT_ID": CLIENT_ID,
        "TESSERA_OIDC_CLIENT_SECRET": CLIENT_SECRET,
        "TESSERA_OIDC_NAME": "Example Org",
    }
    apps = provider_apps(platform_from(told))
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": apps}}
    return server


def left_for(client: Client, **fields: str) -> str:
    """The address at the provider that the page in between leads to."""
    page = client.post(START, fields)
    assert page.status_code == 200
    (address,) = re.findall(r'http-equiv="refresh" content="0;url=([^"]+)"', page.content.decode())
    return unescape(address)


def came_back(client: Client, address: str):
    sent = httpx.get(address, trust_env=False)
    back = urlsplit(sent.headers["Location"])
    return client.get(f"{back.path}?{back.query}")


def signed_in(client: Client, **fields: str):
    return came_back(client, left_for(client, **fields))


def test_the_button_is_there_only_when_a_provider_is_configured(client):
    assert "Sign in with" not in client.get("/sign-in/").content.decode().replace(
        "Sign in with a passkey", ""
    )
    assert client.post(START).status_code == 404


def test_somebody_of_the_organisation_comes_in_and_is_in_no_project(client, provider):
    a_project("vision")
    assert "Sign in with Example Org" in client.get("/sign-in/").content.decode()
    answer = signed_in(client, next="/jobs/")
    assert answer.headers["Location"] == "/jobs/"
    user = User.objects.get()
    assert (user.username, user.email, user.get_full_name()) == (
        "olga",
        "olga@example.org",
        "Olga Ivanova",
    )
    assert not user.is_superuser and not user.is_staff and not user.has_usable_password()
    assert not user.memberships.exists()
    for path in ("/", "/account/"):
        assert "You are not in a project yet" in client.get(path).content.decode()
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"user_add", "sign_in"} <= actions


def test_the_second_time_is_the_same_account_whatever_the_name_is_by_then(provider):
    signed_in(Client())
    provider.person |= {"preferred_username": "olga-new", "email": "new@example.org"}
    again = Client()
    signed_in(again)
    assert again.get("/account/").status_code == 200
    assert User.objects.count() == 1


def test_nobody_becomes_an_existing_account_by_its_name_or_address(client, provider):
    admin = a_user("olga", email="olga@example.org", is_superuser=True)
    signed_in(client)
    came = User.objects.exclude(pk=admin.pk).get()
    assert came.username != "olga" and not came.is_superuser
    assert not SocialAccount.objects.filter(user=admin).exists()


def test_somebody_with_an_account_connects_it_from_the_account_page(client, provider):
    user = a_user("otto")
    client.post("/sign-in/", {"username": "otto", "password": "pw"})
    client.post("/sign-in/confirm/", {"password": "pw"})
    answer = signed_in(client, process="connect")
    assert answer.headers["Location"] == "/account/"
    assert SocialAccount.objects.get().user == user
    there = Client()
    signed_in(there)
    assert "You are otto" in there.get("/account/").content.decode()


def test_the_request_has_a_state_and_a_proof_of_possession(client, provider):
    asked = parse_qs(urlsplit(left_for(client)).query)
    assert asked["code_challenge_method"] == ["S256"] and len(asked["code_challenge"][0]) == 43
    assert len(asked["state"][0]) >= 16
    assert asked["redirect_uri"] == ["http://testserver/sign-in/oidc/sso/back/"]
    assert "openid" in asked["scope"][0].split()


def test_an_answer_that_another_browser_asked_for_is_refused(provider):
    address = left_for(Client())
    answer = came_back(Client(), address)
    assert answer.status_code == 401
    assert not User.objects.exists()


LIES = {
    "a stranger's key": {"key": STRANGER},
    "a shared secret": {"algorithm": "HS256"},
    "no signature": {"algorithm": "none"},
    "another issuer": {"claims": {"iss": "https://elsewhere.example"}},
    "for somebody else": {"claims": {"aud": "another-portal"}},
    "long over": {"claims": {"exp": int(time.time()) - 3600}},
    "of nobody": {"claims": {"sub": ""}},
    "a subject without end": {"claims": {"sub": "x" * 192}},
    "a subject that is a number": {"claims": {"sub": 7}},
    "user info of another": {"told": {"sub": "1"}},
    "user info without subject": {"told": {"sub": None}},
    "another issuer in discovery": {"discovery": {"issuer": "https://elsewhere.example"}},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_lets_nobody_in_and_says_what_to_do(client, provider, lie):
    address = left_for(client)
    for name, value in LIES[lie].items():
        setattr(provider, name, value)
    answer = came_back(client, address)
    assert answer.status_code == 401
    assert "sign-in failed" in unescape(answer.content.decode())
    assert not User.objects.exists()


@pytest.mark.parametrize(
    "discovery",
    [{"issuer": "https://elsewhere.example"}, {"jwks_uri": ""}, {"authorization_endpoint": None}],
)
def test_a_provider_that_is_not_the_one_configured_is_not_gone_to(client, provider, discovery):
    provider.discovery = discovery
    answer = client.post(START)
    assert answer.status_code == 401 and "refresh" not in answer.content.decode()


def test_a_provider_that_does_not_answer_is_said_so(client, provider, settings):
    (app,) = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"]
    app["settings"]["server_url"] = "http://127.0.0.1:1"
    answer = client.post(START)
    assert answer.status_code == 401
    assert "It did not respond" in answer.content.decode()


def test_saying_no_at_the_provider_changes_nothing(client, provider):
    provider.refuses = "access_denied"
    answer = signed_in(client)
    assert answer.headers["Location"] == "/sign-in/cancelled/"
    assert "Nothing was changed" in client.get("/sign-in/cancelled/").content.decode()
    provider.refuses = "server_error"
    assert signed_in(client).status_code == 401


@pytest.mark.parametrize(
    "claims",
    [
        {"preferred_username": "<script>alert(1)</script>"},
        {"preferred_username": "olga\u202etxt"},
        {"preferred_username": "оlga"},  # a Cyrillic first letter
        {"preferred_username": "o" * 10_000},
        {"preferred_username": None, "email": ["a", "b"]},
        {"name": "a\x00b" * 500, "given_name": {"a": 1}},
        {"email": "x" * 10_000 + "@example.org"},
    ],
)
def test_odd_claims_make_a_plain_account(client, provider, claims):
    provider.person |= claims
    signed_in(client)
    user = User.objects.get()
    assert re.fullmatch(r"[a-z0-9._@+-]{1,150}", user.username)
    text = client.get("/account/").content.decode()
    assert "<script>alert" not in text and "\u202e" not in text


def test_an_account_that_was_switched_off_stays_out(client, provider):
    signed_in(Client())
    User.objects.update(is_active=False)
    signed_in(client)
    assert client.get("/account/").status_code == 302


def test_no_token_of_the_provider_is_kept(client, provider):
    signed_in(client)
    assert not SocialToken.objects.exists()
    kept = SocialAccount.objects.get().extra_data
    assert set(kept["userinfo"]) <= {*PERSON, "given_name", "family_name"}


def test_a_link_alone_starts_nothing(client, provider):
    assert client.get(START).status_code == 405


def test_the_secret_is_in_no_text_of_the_settings():
    assert CLIENT_SECRET not in repr(platform_from({"TESSERA_OIDC_CLIENT_SECRET": CLIENT_SECRET}))
