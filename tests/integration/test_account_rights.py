"""Who may see, use or revoke whose tokens, browsers and second steps: a row for every route."""

import re
from dataclasses import dataclass
from datetime import timedelta

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from allauth.usersessions.models import UserSession
from django.core.cache import cache
from django.test import Client
from django.urls import URLPattern, reverse

from portal.accounts.models import ApiToken, Role, TokenScope, User
from portal.accounts.services import token_create
from portal.web import urls as web
from portal.web.account import urls as account
from tests.support.rows import a_project, a_user

pytestmark = pytest.mark.django_db

# Route: status for the owner, a fellow project admin, a platform admin. None of them reaches what
# is another's: it looks like nothing. An anonymous caller is sent to the sign-in page, everywhere.
THINGS = {
    ("web:token_revoke", "get"): (200, 404, 404),
    ("web:token_revoke", "post"): (302, 404, 404),
    ("web:browser_end", "post"): (302, 404, 404),
    ("mfa_remove_webauthn", "get"): (200, 404, 404),
    ("mfa_remove_webauthn", "post"): (302, 404, 404),
}
# Pages about oneself: everybody sees their own, and what stands there is theirs alone.
OWN = {
    ("web:account", "get"): 200,
    ("web:tokens", "post"): 200,
    ("web:browsers_end", "post"): 302,
    ("web:time_zone", "post"): 302,
    ("web:notices", "get"): 200,
    ("web:notices", "post"): 400,  # without choices
    ("web:notices_test", "post"): 302,
    ("account_change_password", "get"): 200,
    ("account_set_password", "get"): 302,
    ("account_reauthenticate", "get"): 200,
    ("mfa_reauthenticate", "get"): 302,
    ("mfa_reauthenticate_webauthn", "get"): 302,
    ("mfa_index", "get"): 302,
    ("mfa_list_webauthn", "get"): 302,
    ("mfa_add_webauthn", "get"): 302,
    ("mfa_activate_totp", "get"): 302,
    ("mfa_deactivate_totp", "get"): 404,
    ("mfa_view_recovery_codes", "get"): 404,
    ("mfa_generate_recovery_codes", "get"): 302,
    ("socialaccount_connections", "get"): 302,
}
# Before one is signed in: open to all, and nothing of anybody's is there.
OPEN = {
    "account_login",
    "account_signup",
    "account_logout",
    "account_inactive",
    "mfa_authenticate",
    "mfa_login_webauthn",
    "openid_connect_login",
    "openid_connect_callback",
    "saml_login",
    "saml_acs",
    "saml_finish_acs",
    "saml_metadata",
    "saml_sls",
    "socialaccount_login_cancelled",
    "socialaccount_login_error",
    "socialaccount_signup",
}
ASKED = {"name": "ci", "scope": "read", "days": "1"}


@dataclass
class World:
    olga: User
    token: ApiToken
    browser: UserSession
    key: Authenticator

    def address(self, route: str) -> str:
        own = {
            "web:token_revoke": [self.token.token_key],
            "web:browser_end": [self.browser.pk],
            "mfa_remove_webauthn": [self.key.pk],
        }
        return reverse(route, args=own.get(route, []))


@pytest.fixture
def world() -> World:
    cache.clear()
    olga = a_user("olga")
    a_project("vision", olga, a_user("pia"), role=Role.ADMIN)
    a_user("root", is_superuser=True, is_staff=True)
    token, _ = token_create(user=olga, name="laptop", scope=TokenScope.READ, ttl=timedelta(days=1))
    Client().post("/sign-in/", {"username": "olga", "password": "pw"})
    key = Authenticator.objects.create(user=olga, type="webauthn", data={"name": "key"})
    return World(olga, token, UserSession.objects.get(), key)


def signed_in(name: str) -> Client:
    client = Client()
    client.force_login(User.objects.get(username=name))
    return client


def confirmed(name: str) -> Client:
    """The same, and the password was just given once more."""
    client = signed_in(name)
    assert client.post("/sign-in/confirm/", {"password": "pw"}).status_code == 302
    return client


def test_every_route_of_the_account_has_a_row():
    of_allauth = {p.name for p in account.urlpatterns}
    ours = {
        f"web:{p.name}"
        for p in web.urlpatterns
        if isinstance(p, URLPattern)
        and str(p.pattern).startswith("account/")
        and not p.name.startswith(("webhook", "secret"))  # those have a matrix with the other pages
    }
    assert of_allauth | ours == {route for route, _ in {**THINGS, **OWN}} | OPEN


@pytest.mark.parametrize(("route", "method"), sorted(THINGS))
def test_nobody_reaches_what_is_anothers(world: World, route: str, method: str):
    said = [getattr(confirmed(n), method)(world.address(route)) for n in ("pia", "root", "olga")]
    pia, root, owner = (answer.status_code for answer in said)
    assert (owner, pia, root) == THINGS[route, method]


@pytest.mark.parametrize(("route", "method"), sorted({**THINGS, **OWN}))
def test_a_stranger_is_sent_to_the_sign_in_page(world: World, route: str, method: str):
    answer = getattr(Client(), method)(world.address(route))
    assert (answer.status_code, answer.headers["Location"][:15]) == (302, "/sign-in/?next=")
    assert ApiToken.objects.count() == UserSession.objects.count() == 1


@pytest.mark.parametrize(("route", "method"), sorted(OWN))
def test_pages_about_oneself_show_nothing_of_another(world: World, route: str, method: str):
    answer = getattr(signed_in("pia"), method)(world.address(route), ASKED)
    assert answer.status_code == OWN[route, method]
    text = answer.content.decode()
    assert world.token.token_key not in text and "olga" not in text and "127.0.0.1" not in text
    assert UserSession.objects.filter(user=world.olga).exists()


@pytest.mark.parametrize("route", ["web:token_revoke", "web:browser_end"])
def test_what_was_refused_is_still_there(world: World, route: str):
    for name in ("pia", "root"):
        signed_in(name).post(world.address(route))
    assert ApiToken.objects.exists() and UserSession.objects.exists()


def test_unknown_and_foreign_tokens_answer_alike(world: World):
    pia = signed_in("pia")
    foreign = pia.get(world.address("web:token_revoke"))
    unknown = pia.get(reverse("web:token_revoke", args=["tsr_0000000"]))
    strip = [re.sub(r'value="[^"]*"', "", a.content.decode()) for a in (foreign, unknown)]
    assert (foreign.status_code, strip[0]) == (unknown.status_code, strip[1])


@pytest.mark.parametrize(("name", "left"), [("pia", 1), ("root", 0)])
def test_only_a_platform_admin_revokes_a_token_in_the_console(world: World, name: str, left: int):
    fields = {"action": "revoke", "_selected_action": [world.token.pk]}
    signed_in(name).post(reverse("admin:accounts_apitoken_changelist"), fields)
    assert ApiToken.objects.count() == left


def test_a_forged_form_changes_nothing(world: World):
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.olga)
    for route in ("web:token_revoke", "web:browser_end", "web:tokens", "web:browsers_end"):
        assert client.post(world.address(route), ASKED).status_code == 403
    assert ApiToken.objects.count() == UserSession.objects.count() == 1


def test_changing_how_one_signs_in_asks_for_the_password_again(world: World):
    olga = signed_in("olga")
    for route in ("mfa_add_webauthn", "mfa_activate_totp", "mfa_generate_recovery_codes"):
        asked = olga.get(reverse(route))
        assert asked.headers["Location"].startswith(reverse("account_reauthenticate"))
    TOTP.activate(world.olga, generate_totp_secret())
    removed = olga.post(reverse("mfa_deactivate_totp"))
    assert removed.status_code == 302
    assert Authenticator.objects.filter(type="totp").exists()
