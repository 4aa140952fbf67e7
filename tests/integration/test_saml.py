"""Sign-in by SAML: a real provider on loopback, honest or lying."""

import re
from html import unescape
from urllib.parse import urlsplit

import pytest
from allauth.socialaccount.models import SocialAccount
from django.core.cache import cache
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from lxml import etree

from portal.accounts.models import User
from portal.platform import platform_from
from portal.settings import sign_in
from tests.support.rows import a_user
from tests.support.saml_provider import FORMAT, MAIL, OWN, STRANGER, UID, Running

pytestmark = pytest.mark.django_db
START = "/sign-in/saml/sso/"
PERSON = {
    UID: "olga",
    MAIL: "olga@example.org",
    "urn:oid:2.5.4.42": "Olga",
    "urn:oid:2.5.4.4": "Ivanova",
}


class Browser(Client):
    """SAML's library reads the header itself."""

    def __init__(self) -> None:
        super().__init__(HTTP_HOST="testserver")


@pytest.fixture
def client():
    return Browser()


@pytest.fixture
def provider(settings):
    cache.clear()
    with Running() as provider:
        provider.attributes = dict(PERSON)
        told = {
            "TESSERA_SAML_METADATA_URL": provider.entity_id,
            "TESSERA_SAML_ENTITY_ID": provider.entity_id,
            "TESSERA_SAML_NAME": "Example Org",
        }
        ways = settings.SOCIALACCOUNT_PROVIDERS
        saml = ways["saml"] | {"APPS": sign_in.saml_apps(platform_from(told))}
        settings.SOCIALACCOUNT_PROVIDERS = ways | {"saml": saml}
        yield provider


def left_for(client: Client, **fields: str) -> str:
    page = client.post(START, fields)
    assert page.status_code == 200
    (address,) = re.findall(r'http-equiv="refresh" content="0;url=([^"]+)"', page.content.decode())
    return unescape(address)


def posted(client: Client, back: str, answer: str):
    """From the provider's site: without the session's cookie, which no browser sends from there."""
    elsewhere = Browser()
    sent = elsewhere.post(urlsplit(back).path, {"SAMLResponse": answer})
    assert sent.status_code == 302
    for name, cookie in elsewhere.cookies.items():
        client.cookies[name] = cookie.value
    return client.get(sent.headers["Location"])


def signed_in(client: Client, provider, **fields: str):
    return posted(client, *provider.answer_to(left_for(client, **fields)))


def test_without_a_provider_there_is_no_button_and_no_address(client):
    assert "/sign-in/saml/" not in client.get("/sign-in/").content.decode()
    assert client.post(START).status_code == 404
    assert client.get(f"{START}metadata/").status_code == 404


def test_somebody_of_the_organisation_comes_in_and_is_in_no_project(client, provider):
    assert "Sign in with Example Org" in client.get("/sign-in/").content.decode()
    answer = signed_in(client, provider, next="/jobs/")
    assert answer.headers["Location"] == "/jobs/"
    user = User.objects.get()
    assert (user.username, user.email, user.get_full_name()) == (
        "olga",
        "olga@example.org",
        "Olga Ivanova",
    )
    assert not user.is_superuser and not user.has_usable_password()
    assert "You are not in a project yet" in client.get("/").content.decode()


def test_the_second_time_is_the_same_account_whatever_the_name_is_by_then(provider):
    signed_in(Browser(), provider)
    provider.attributes |= {UID: "olga-new"}
    again = Browser()
    signed_in(again, provider)
    assert "You are olga" in again.get("/account/").content.decode()
    assert User.objects.count() == 1


def test_nobody_becomes_an_existing_account_by_its_name_or_address(client, provider):
    admin = a_user("olga", email="olga@example.org", is_superuser=True)
    signed_in(client, provider)
    came = User.objects.exclude(pk=admin.pk).get()
    assert came.username != "olga" and not came.is_superuser


def test_somebody_with_an_account_connects_it_from_the_account_page(client, provider):
    user = a_user("otto")
    client.post("/sign-in/", {"username": "otto", "password": "pw"})
    client.post("/sign-in/confirm/", {"password": "pw"})
    assert "Example Org" in client.get("/account/").content.decode()
    answer = signed_in(client, provider, process="connect")
    assert answer.headers["Location"] == "/account/"
    assert SocialAccount.objects.get().user == user
    assert "connected" in client.get("/account/").content.decode()


LIES = {
    "no signature": {"signs_with": None},
    "a stranger's key": {"signs_with": STRANGER},
    "another issuer": {"issuer": "https://elsewhere.example/metadata"},
    "for somebody else": {"audience": "https://another-portal.example/"},
    "to another address": {"recipient": "https://another-portal.example/back/"},
    "long over": {"age_seconds": 3600},
    "in answer to another question": {"answers": "ONELOGIN_0123456789"},
    "unasked": {"answers": ""},
    "a name for this once": {"name_format": f"{FORMAT}transient"},
    "a name without end": {"name_id": "x" * 192},
    "no name": {"name_id": ""},
    "refused": {"status": "Responder"},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_lets_nobody_in_and_says_what_to_do(client, provider, lie):
    for name, value in LIES[lie].items():
        setattr(provider, name, value)
    answer = signed_in(client, provider)
    assert answer.status_code == 401
    assert "sign-in failed" in unescape(answer.content.decode())
    assert not User.objects.exists()


def test_a_name_is_read_as_a_whole_with_a_comment_inside(client, provider):
    """Readers that stop at the comment would let admin.example sign in as admin."""
    signed_in(client, provider)
    provider.name_markup = "47<!-- -->11.example"
    signed_in(Browser(), provider)
    assert {row.uid for row in SocialAccount.objects.all()} == {"4711", "4711.example"}


def test_an_answer_serves_once_and_only_the_browser_that_asked(client, provider):
    back, answer = provider.answer_to(left_for(client))
    assert posted(Browser(), back, answer).status_code == 401
    assert posted(client, back, answer).status_code == 302
    client.logout()
    assert posted(client, back, answer).status_code == 401


def test_what_is_no_answer_at_all_is_refused(client, provider):
    back, _ = provider.answer_to(left_for(client))
    for body in ("", "x", "PGE+", "A" * 10_000):
        assert posted(client, back, body).status_code == 401
    assert client.get(f"{START}back/finish/").status_code == 401


def test_a_provider_that_does_not_answer_is_said_so(client, provider, settings):
    (app,) = settings.SOCIALACCOUNT_PROVIDERS["saml"]["APPS"]
    app["settings"]["idp"]["metadata_url"] = "http://127.0.0.1:1/"
    answer = client.post(START)
    assert answer.status_code == 401
    assert "It did not respond" in answer.content.decode()


def test_the_portal_tells_the_provider_what_it_has_to_know(client, provider):
    told = etree.fromstring(client.get(f"{START}metadata/").content)
    assert told.get("entityID") == "http://testserver/sign-in/saml/sso/metadata/"
    (back,) = told.findall(".//{*}AssertionConsumerService")
    assert back.get("Location") == "http://testserver/sign-in/saml/sso/back/"
    assert told.find(".//{*}SPSSODescriptor").get("WantAssertionsSigned") == "true"
    assert told.find(".//{*}SingleLogoutService") is None
    assert OWN.key not in client.get(f"{START}metadata/").content.decode()


def test_what_is_missing_is_named_when_the_portal_starts(monkeypatch):
    told = {"TESSERA_SAML_METADATA_URL": "https://idp.example.org/metadata"}
    with pytest.raises(ImproperlyConfigured, match="TESSERA_SAML_ENTITY_ID"):
        sign_in.saml_apps(platform_from(told))
    monkeypatch.setattr(sign_in, "find_spec", lambda name: None)
    with pytest.raises(ImproperlyConfigured, match=r"requirements/saml\.lock"):
        sign_in.saml_apps(platform_from(told))
